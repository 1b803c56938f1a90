"""`popmq user` and `popmq acl` against a real server, as a user types them."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner, Result
from integration.served import serving

from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_cli.main import main
from popmq_proxy.core.access.table import AccessTable, Version, decode

PLAIN = Path(__file__).resolve().parents[1] / "unit" / "cli" / "access" / "plain_acl.yml"


@pytest.fixture
async def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    async with serving(tmp_path) as endpoint:
        monkeypatch.setenv("POPMQ_ENDPOINT", endpoint)
        yield endpoint


async def run(line: str, *more: str, code: int = 0, stdin: str = "") -> Result:
    words = [*line.split(), *more]
    done = await asyncio.to_thread(CliRunner().invoke, main, words, stdin)
    assert done.exit_code == code, done.output
    return done


async def told(line: str, *more: str, code: int = 0, stdin: str = "") -> Any:
    done = await run(f"{line} --json", *more, code=code, stdin=stdin)
    assert done.stderr == ""
    return json.loads(done.stdout)


def secret_file(folder: Path, secret: str, mode: int = 0o600) -> str:
    path = folder / "new-secret"
    path.write_text(f"{secret}\n")
    path.chmod(mode)
    return str(path)


async def test_a_secret_that_the_server_makes_is_printed_once(at: str) -> None:
    done = await run("user create alice")
    (_, secret), *_ = [line.split() for line in done.stdout.splitlines() if "Secret:" in line]
    assert len(secret) >= 32
    assert "not shown again" in done.stdout
    assert secret not in done.stderr
    for line in ("user list", "acl export", "user update alice --disable"):
        assert secret not in (await run(line)).output
    made = await told("user create bob --super")
    assert made["user"] == {
        "username": "bob",
        "type": "SUPER",
        "status": "ENABLED",
        "secrets": 1,
        "oldUntilMs": 0,
    }
    assert len(made["secret"]) >= 32


async def test_a_secret_comes_from_a_file_and_is_not_printed(at: str, tmp_path: Path) -> None:
    mine = secret_file(tmp_path, "my-own-secret")
    done = await run(f"user create alice --new-secret-file {mine}")
    assert "my-own-secret" not in done.output
    assert "Secret" not in done.output
    await run("user create bob --new-secret-file -", stdin="another-secret\n")
    await run("user create carol --no-secret")
    rows = (await run("user list")).stdout.splitlines()
    assert [row.split() for row in rows[1:]] == [
        ["alice", "NORMAL", "ENABLED", "1", "-"],
        ["bob", "NORMAL", "ENABLED", "1", "-"],
        ["carol", "NORMAL", "ENABLED", "0", "-"],
    ]
    found = await told("user list --filter lic")
    assert [one["username"] for one in found["users"]] == ["alice"]
    assert (found["authentication"], found["authorization"]) == (False, False)


async def test_a_secret_file_that_others_may_read_is_refused(at: str, tmp_path: Path) -> None:
    loose = secret_file(tmp_path, "my-own-secret", 0o640)
    done = await run(f"user create alice --new-secret-file {loose}", code=2)
    assert f"chmod 600 {loose}" in done.stderr.replace("\n", "")
    assert "my-own-secret" not in done.output
    empty = secret_file(tmp_path, "")
    assert "is empty" in (await run(f"user create alice --new-secret-file {empty}", code=2)).stderr
    assert (await told("user list"))["users"] == []


async def test_a_user_is_changed_and_deleted(at: str) -> None:
    await run("user create alice")
    assert "alice is NORMAL and DISABLED." in (await run("user update alice --disable")).stdout
    changed = await told("user update alice --enable --type super")
    assert (changed["user"]["type"], changed["user"]["status"]) == ("SUPER", "ENABLED")
    assert "say what to change" in (await run("user update alice", code=2)).stderr
    done = await run("user update alice --disable", code=1)
    assert "last enabled Super user" in done.stderr
    await run("user create other --super")
    assert "nothing was done" in (await run("user delete alice", code=1, stdin="n\n")).stderr
    assert (await told("user delete alice --yes"))["deleted"] == "alice"
    assert "popmq user create alice" in (await run("user delete alice --yes", code=1)).stderr
    done = await run("user create other", code=1)
    assert done.stderr == "popmq: User other exists. Change it with: popmq user update other.\n"


async def test_a_secret_is_rotated(at: str) -> None:
    await run("user create alice")
    done = await run("user rotate alice")
    assert "valid until: popmq user rotate alice --drop-old" in done.stdout
    assert "Secret: " in done.stdout
    assert "dropped" in (await run("user list")).stdout
    assert (await told("user rotate alice --drop-old"))["user"]["secrets"] == 1
    rotated = await told("user rotate alice --old-valid-for 1h")
    assert rotated["user"]["secrets"] == 2
    assert rotated["user"]["oldUntilMs"] > 0
    assert rotated["secret"]
    assert (
        "takes neither"
        in (await run("user rotate alice --drop-old --old-valid-for 1h", code=2)).stderr
    )


async def test_entries_decide(at: str) -> None:
    await run("user create alice")
    done = await run(
        "acl create alice --resource Topic:order* --resource Topic:bills --action pub,Sub "
        "--decision allow --source-ip 10.0.0.0/8,127.0.0.1"
    )
    assert done.stdout == (
        "User:alice may Pub, Sub at Topic:order*, Topic:bills from 10.0.0.0/8, 127.0.0.1.\n"
    )
    ask = "acl test alice --action Pub --resource Topic:orders"
    done = await run(ask)
    assert done.stdout.splitlines() == [
        "Allowed: User:alice, Pub at Topic:orders",
        "Decided by: the entry of policy Custom: Allow Pub, Sub at Topic:order* "
        "from 10.0.0.0/8, 127.0.0.1",
    ]
    done = await run(f"{ask} --source-ip 192.168.0.1", code=1)
    assert done.stdout.splitlines() == [
        "Denied: User:alice, Pub at Topic:orders from 192.168.0.1",
        "Decided by: no matched policies",
    ]
    await run("acl create User:alice --resource Topic:orders --action All --decision deny")
    denied = await told(ask, code=1)
    assert not denied["allowed"]
    assert denied["entry"]["resource"] == "Topic:orders"
    assert denied["policyType"] == "Custom"
    again = "acl create alice --resource Topic:orders --action Pub --decision allow"
    assert "popmq acl update" in (await run(again, code=1)).stderr
    await run(again.replace("create", "update"))
    assert (await told(ask))["allowed"]
    assert (await told("acl test nobody --action Pub --resource Topic:t", code=1))["reason"]


async def test_entries_are_listed_and_deleted(at: str) -> None:
    for name in ("alice", "bob"):
        await run(f"user create {name} --no-secret")
        entry = "--resource Topic:a --resource Group:a --action Sub --decision allow"
        await run(f"acl create {name} {entry}")
    done = await run("acl create bob --resource * --action All --decision deny --policy default")
    assert "if no entry of Custom matches" in done.stdout
    rows = [line.split() for line in (await run("acl list bob")).stdout.splitlines()]
    assert rows[1:] == [
        ["User:bob", "Custom", "Topic:a", "Sub", "Allow", "anywhere"],
        ["User:bob", "Custom", "Group:a", "Sub", "Allow", "anywhere"],
        ["User:bob", "Default", "*", "All", "Deny", "anywhere"],
    ]
    found = await told("acl list --resource Group")
    assert [one["subject"] for one in found] == ["User:alice", "User:bob"]
    gone = await told("acl delete alice --resource Topic:a --yes")
    assert gone["entries"] == 1
    done = await run("acl delete bob --policy default --yes")
    assert done.stdout == "1 entry of User:bob is deleted.\n"
    done = await run("acl delete bob --yes")
    assert done.stdout == "2 entries of User:bob are deleted.\n"
    assert "There is no entry of bob" in (await run("acl delete bob --yes", code=1)).stderr
    assert [one["subject"] for one in await told("acl list")] == ["User:alice"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("acl create a --resource Topic:t --action Publ --decision allow", "Did you mean Pub?"),
        ("acl create a --resource Topic:t --action Pub", "Missing option '--decision'"),
        ("acl create a --action Pub --decision allow", "Missing option '--resource'"),
        ("acl test a --resource Topic:t --action Pub --source-ip x", "is no IP address"),
        ("acl tset a", "Did you mean test"),
        ("user crate a", "Did you mean create"),
        ("user create a --no-secret --new-secret-file -", "say one"),
    ],
)
async def test_what_is_written_wrongly_is_told(line: str, text: str) -> None:
    assert text in (await run(line, code=2, stdin="some-secret")).stderr


async def test_what_the_server_refuses_is_told(at: str) -> None:
    await run("user create alice")
    entry = "--action Pub --decision allow"
    done = await run(f"acl create alice --resource Topics:t {entry}", code=1)
    assert "'Topics' is not one of Topic, Group" in done.stderr
    done = await run(f"acl create alice --resource Topic:t {entry} --source-ip 10.x", code=1)
    assert "'10.x' is no address" in done.stderr
    done = await run(f"acl create Role:alice --resource Topic:t {entry}", code=1)
    assert "a subject is written User:NAME" in done.stderr
    done = await run("user create a/b", code=1)
    assert done.stderr.startswith("popmq: Illegal user a/b")


async def test_an_export_can_be_imported_elsewhere(at: str, tmp_path: Path) -> None:
    secret = secret_file(tmp_path, "never-exported")
    await run(f"user create alice --super --new-secret-file {secret}")
    await run("user create bob")
    await run("user update bob --disable")
    await run("acl create bob --resource Group:g --action Sub,Get --decision deny --source-ip ::1")
    exported = (await run("acl export")).stdout
    assert "never-exported" not in exported
    assert await told("acl export") == json.loads(exported)
    async with serving(tmp_path / "other") as other:
        done = await told(f"acl import - --endpoint {other}", stdin=exported)
        made = {one["subject"]: one["secret"] for one in done["changes"] if one["secret"]}
        assert set(made) == {"User:alice", "User:bob"}
        assert all(len(one) >= 32 for one in made.values())
        assert (await run(f"acl export --endpoint {other}")).stdout == exported
        users = await run(f"user list --endpoint {other}")
        done = await run(f"acl import - --endpoint {other}", stdin=exported)
        assert done.stdout == "Set 1 entry of User:bob in policy Custom\n"
        assert (await run(f"user list --endpoint {other}")).stdout == users.stdout


async def test_a_file_of_rocketmq_4_is_imported(at: str) -> None:
    planned = await run(f"acl import {PLAIN} --dry-run")
    assert (await told("user list"))["users"] == []
    done = await run(f"acl import {PLAIN}")
    would = [line for line in planned.stdout.splitlines() if not line.startswith("    ")]
    assert would == [f"Would: {line}" for line in done.stdout.splitlines()]
    assert "    Allow Pub, Sub at Topic:orders\n" in planned.stdout
    document = await told(f"acl import {PLAIN} --dry-run")
    assert document["changes"][0]["request"]["entries"][0]["resource"] == "Topic:orders"
    assert len(document["notCarriedOver"]) == 2
    assert "0123456789" not in json.dumps(document)
    assert done.stdout.splitlines()[:2] == [
        "Create user operator (SUPER)",
        "Create user orders-service (NORMAL)",
    ]
    assert "whiteRemoteAddress of reader (192.168.1.*) is not carried over" in done.stderr
    assert "0123456789" not in done.output + planned.output
    types = {one["username"]: one["type"] for one in (await told("user list"))["users"]}
    assert types == {"operator": "SUPER", "orders-service": "NORMAL", "reader": "NORMAL"}
    await run("acl test orders-service --action Sub --resource Topic:orders")
    await run("acl test orders-service --action Sub --resource Topic:salaries", code=1)
    await run("acl test orders-service --action Sub --resource Group:anything")
    await run("acl test reader --action Pub --resource Topic:anything")
    await run("acl test reader --action Pub --resource Topic:orders", code=1)
    done = await run(f"acl import {PLAIN}")
    assert "secret of users who exist is not changed: orders-service, reader" in done.stderr


async def test_the_secret_of_an_imported_account_is_the_one_that_counts(
    at: str, tmp_path: Path
) -> None:
    await run(f"acl import {PLAIN}")
    async with grpc.aio.insecure_channel(at) as channel:
        users = await admin_grpc.AdminStub(channel).ListUsers(admin.ListUsersRequest())
    assert [one.secrets for one in users.users] == [1, 1, 1]
    table = _stored(tmp_path)
    assert table.users["orders-service"].secrets[0].key == "0123456789"


def _stored(folder: Path) -> AccessTable:
    """What the broker's log has of users and policies, its last record."""
    log = b"".join(path.read_bytes() for path in sorted((folder / "data" / "commitlog").iterdir()))
    begin = log.rindex(b'{"users":')
    data, _ = json.JSONDecoder().raw_decode(log[begin : begin + 20_000].decode("utf-8", "replace"))
    return decode(Version(1), json.dumps(data).encode())


async def test_the_secret_of_a_file_is_not_shown(at: str, tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text(json.dumps({"username": "alice", "password": "alice-secret"}))
    for line in (f"acl import {path} --dry-run", f"acl import {path}"):
        for more in ((), ("--json",)):
            assert "alice-secret" not in (await run(line, *more)).output


async def test_an_import_that_fails_tells_how_far_it_got(at: str, tmp_path: Path) -> None:
    """Secrets that were made before are not lost."""
    path = tmp_path / "users.json"
    path.write_text(json.dumps([{"username": "a"}, {"username": "b/c"}, {"username": "d"}]))
    done = await run(f"acl import {path}", code=1)
    assert done.stdout.startswith("Create user a (NORMAL); the secret, not shown again: ")
    assert "1 of 3 changes are made" in done.stderr
    assert "Illegal user b/c" in done.stderr
    await run("user delete a --yes")
    done = await run(f"acl import {path} --json", code=1)
    document = json.loads(done.stdout)
    assert document["changes"][0]["secret"]
    assert document["changesLeft"] == 2
    assert json.loads(done.stderr)["exitCode"] == 1


async def test_a_file_that_is_none_changes_nothing(at: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in ("", "{", '[{"username": "a"}, 3]', "accounts: 3", "\xff"):
        path.write_bytes(text.encode("latin-1"))
        done = await run(f"acl import {path}", code=2)
        assert f"Invalid value for {path}:" in done.stderr.replace("\n", " ")
    assert (await told("user list"))["users"] == []


def with_brokers_away() -> Any:
    """A server that answers every change with brokers that lack it."""
    missing = ["broker-b", "broker-c"]
    answers = {
        "CreateUser": admin.UserResponse(secret="made-just-now", missing_brokers=missing),
        "DeleteUser": admin.DeleteUserResponse(missing_brokers=missing[:1]),
        "PutAcl": admin.PutAclResponse(missing_brokers=missing),
        "DeleteAcl": admin.DeleteAclResponse(entries=1, missing_brokers=missing),
    }

    def answering(answer: Any) -> Any:
        async def answered(request: bytes, context: Any) -> bytes:
            data: bytes = answer.SerializeToString()
            return data

        return grpc.unary_unary_rpc_method_handler(answered)

    handlers = {name: answering(answer) for name, answer in answers.items()}
    return grpc.method_handlers_generic_handler("popmq.admin.v1.Admin", handlers)


async def test_brokers_that_lack_a_change_are_named() -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((with_brokers_away(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        end = f"--endpoint 127.0.0.1:{port}"
        entry = "--resource Topic:t --action Pub --decision allow"
        warning = (
            "Warning: broker-b, broker-c do not have the change yet. "
            "They get it when they are back.\n"
        )
        for line in (
            "user create alice",
            f"acl create alice {entry}",
            f"acl update alice {entry}",
            "acl delete alice --yes",
        ):
            assert (await run(f"{line} {end}")).stderr == warning, line
        done = await run(f"user delete alice --yes {end}")
        assert done.stderr == (
            "Warning: broker-b does not have the change yet. It gets it when it is back.\n"
        )
        found = await told(f"user create alice {end}")
        assert found["missingBrokers"] == ["broker-b", "broker-c"]
    finally:
        await server.stop(None)


async def test_names_and_words_are_completed(at: str) -> None:
    await run("user create alice")
    await run("user create bob")

    def completed(line: str, begun: str) -> list[str]:
        complete = BashComplete(main, {}, "popmq", "_POPMQ_COMPLETE")
        return [one.value for one in complete.get_completions(line.split(), begun)]

    for line, begun, expected in (
        ("user update", "a", ["alice"]),
        ("acl create", "", ["alice", "bob"]),
        ("acl list", "b", ["bob"]),
        ("acl create alice --action", "Pub,S", ["Pub,Sub"]),
        ("acl create alice --decision", "d", ["deny"]),
        ("acl create alice --resource", "T", ["Topic:"]),
    ):
        assert await asyncio.to_thread(completed, line, begun) == expected, line


@pytest.mark.parametrize("line", ["user update", "topic show", "group show"])
async def test_a_context_that_is_not_there_completes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str
) -> None:
    monkeypatch.setenv("POPMQ_CONFIG_DIR", str(tmp_path))
    complete = BashComplete(main, {}, "popmq", "_POPMQ_COMPLETE")
    words = [*line.split(), "--context", "nowhere"]
    assert await asyncio.to_thread(complete.get_completions, words, "") == []
