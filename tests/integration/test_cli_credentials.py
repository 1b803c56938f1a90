"""Commands sign what they ask, as options, the environment or a context say."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from harness.certificates import self_signed
from harness.signed_server import Denial, SignedServer
from integration.served import serving

from popmq_cli.main import main

USERS = {"alice": "geheim-ß-密"}
CONFIG = "POPMQ_CONFIG_DIR"


@asynccontextmanager
async def signed(folder: Path, **settings: Any) -> AsyncIterator[SignedServer]:
    async with serving(folder, **settings) as behind:
        server = SignedServer(behind, USERS)
        async with server.serving():
            yield server


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CONFIG, str(tmp_path / "config"))
    return tmp_path / "config" / "contexts.json"


async def run(*arguments: str, **variables: str) -> tuple[int, str]:
    """The exit code, and what is printed."""
    result = await asyncio.to_thread(CliRunner().invoke, main, arguments, env=variables)
    return result.exit_code, result.output


def secret(folder: Path, text: str = USERS["alice"], mode: int = 0o600) -> str:
    path = folder / "secret"
    path.write_text(f"{text}\n")
    path.chmod(mode)
    return str(path)


def mode_of(path: Path) -> int:
    """0: it is not there."""
    return path.stat().st_mode & 0o777 if path.exists() else 0


async def test_each_kind_of_command_is_signed(tmp_path: Path) -> None:
    async with signed(tmp_path) as server:
        at = ("--endpoint", server.endpoint)
        alice = (*at, "--user", "alice", "--secret-key-file", secret(tmp_path))
        for words in (
            ("topic", "create", "t"),
            ("send", "t", "hello"),
            ("receive", "t", "--group", "g", "--ack"),
            ("topic", "list"),
            ("cluster", "status", "--over", "100ms"),
            ("doctor", "--topic", "t", "--group", "g"),
        ):
            code, printed = await run(*words, *alice)
            assert code == 0, (words, printed)
        assert server.refused == []
        variables = {"POPMQ_ACCESS_KEY": "alice", "POPMQ_SECRET_KEY": USERS["alice"]}
        assert (await run("topic", "list", *at, **variables))[0] == 0
        assert (await run("send", "t", "hello", *at, **variables))[0] == 0
        assert server.refused == []


@pytest.mark.parametrize("words", [("topic", "list"), ("send", "t", "hello")])
async def test_who_is_denied_is_told_what_was_tried(tmp_path: Path, words: tuple[str, ...]) -> None:
    async with signed(tmp_path) as server:
        at = ("--endpoint", server.endpoint)
        code, printed = await run(*words, *at)
        assert code == 1
        assert printed.startswith(f"popmq: {server.endpoint}: username cannot be null.; ")
        assert "--user NAME --secret-key-file FILE" in printed

        wrong = ("--access-key", "alice", "--secret-key-file", secret(tmp_path, "wrong"))
        code, printed = await run(*words, *at, *wrong)
        assert code == 1
        assert f"{server.endpoint} as user 'alice': check signature failed." in printed
        assert "wrong" not in printed

        add = ("context", "add", "prod", *at, *wrong)
        assert (await run(*add))[0] == 0
        code, printed = await run(*words, "--context", "prod", "--json")
        told = json.loads(printed)
        assert f"{server.endpoint} as user 'alice' (context prod): check" in told["error"]
        assert told["exitCode"] == 1


async def test_a_forbidden_call_is_told(tmp_path: Path) -> None:
    async with signed(tmp_path) as server:
        server.denial = Denial.FORBIDDEN
        server.denied_calls |= {"SendMessage", "ListTopics"}
        alice = ("--user", "alice", "--secret-key-file", secret(tmp_path))
        for words in (("send", "t", "x"), ("topic", "list")):
            code, printed = await run(*words, "--endpoint", server.endpoint, *alice)
            assert code == 1
            assert "as user 'alice': User:alice may not " in printed
            assert "what the user may do" in printed


async def test_where_no_server_is_the_user_and_the_context_are_told(tmp_path: Path) -> None:
    alice = ("--user", "alice", "--secret-key-file", secret(tmp_path))
    await run("context", "add", "away", "--endpoint", "127.0.0.1:1", *alice)
    for words in (("send", "t", "x"), ("topic", "list")):
        code, printed = await run(*words, "--context", "away")
        assert code == 3
        assert "as user 'alice' (context away)" in printed
        assert "127.0.0.1:1" in printed


async def test_an_admin_secret_that_is_missing_is_told_as_before(tmp_path: Path) -> None:
    file = tmp_path / "admin"
    file.write_text("0123456789abcdef")
    async with serving(tmp_path, admin_secret_file=file) as endpoint:
        code, printed = await run("topic", "create", "t", "--endpoint", endpoint)
        assert code == 1
        assert printed.endswith("give it with --secret-file or POPMQ_ADMIN_SECRET_FILE.\n")


async def test_a_context_is_enough(tmp_path: Path, config: Path) -> None:
    async with signed(tmp_path) as server:
        alice = ("--user", "alice", "--secret-key-file", secret(tmp_path))
        add = ("context", "add", "prod", "--endpoint", server.endpoint, *alice, "--use")
        assert (await run(*add))[0] == 0
        assert mode_of(config) == 0o600
        assert (await run("topic", "create", "t"))[0] == 0
        assert (await run("send", "t", "x"))[0] == 0
        assert server.refused == []

        elsewhere = ("--endpoint", server.endpoint)
        code, printed = await run("topic", "list", *elsewhere)
        assert code == 1, "the current context is not mixed with another endpoint"
        assert (await run("topic", "list", *elsewhere, "--context", "prod"))[0] == 0
        assert (await run("topic", "list", POPMQ_CONTEXT="prod"))[0] == 0
        code, printed = await run("topic", "list", "--context", "prdo")
        assert code == 2
        assert "there is no context 'prdo'" in printed
        await asyncio.to_thread(config.chmod, 0o640)
        code, printed = await run("topic", "list")
        assert code == 2
        assert f"chmod 600 {config}" in printed


async def test_names_are_completed_with_a_context(tmp_path: Path) -> None:
    complete = {"_POPMQ_COMPLETE": "bash_complete", "COMP_CWORD": "4"}
    async with signed(tmp_path) as server:
        alice = ("--user", "alice", "--secret-key-file", secret(tmp_path))
        await run("context", "add", "prod", "--endpoint", server.endpoint, *alice)
        await run("topic", "create", "completed", "--context", "prod")

        async def completed(words: str, at: int) -> list[str]:
            asked = {**complete, "COMP_WORDS": words, "COMP_CWORD": str(at)}
            runner = CliRunner()
            found = await asyncio.to_thread(runner.invoke, main, prog_name="popmq", env=asked)
            return [line.partition(",")[2] for line in found.output.splitlines()]

        assert await completed("popmq topic list --context p", 4) == ["prod"]
        assert await completed("popmq context use ", 3) == ["prod", "default"]
        assert await completed("popmq topic show --context prod com", 5) == ["completed"]
        assert await completed("popmq run x --context p", 4) == ["prod"]


async def test_secrets_of_contexts_are_never_shown(tmp_path: Path) -> None:
    alice = ("--user", "alice", "--secret-key-file", secret(tmp_path, "hush-hush"))
    at = ("--endpoint", "queue.example")
    printed = [
        (await run("context", "add", "prod", *at, *alice, "--use", "--json"))[1],
        (await run("context", "list", "--json"))[1],
        (await run("context", "list"))[1],
        (await run("context", "show", "--json"))[1],
        (await run("context", "show", "prod"))[1],
        (await run("context", "add", "prod", *at, *alice))[1],
    ]
    assert "hush" not in "".join(printed)
    assert json.loads(printed[0]) == {
        "name": "prod",
        "current": True,
        "endpoint": "queue.example",
        "user": "alice",
        "secretKey": True,
        "tlsCa": "",
        "tlsCert": "",
        "tlsKey": "",
    }
    assert json.loads(printed[1])["current"] == "prod"
    assert printed[2].splitlines()[1].split() == ["*", "prod", "queue.example", "alice"]
    assert json.loads(printed[3])["user"] == "alice"
    assert "--replace" in printed[5]


async def test_contexts_are_chosen_and_removed(tmp_path: Path) -> None:
    await run("context", "add", "a", "--endpoint", "one")
    await run("context", "add", "a", "--endpoint", "two", "--replace")
    await run("context", "use", "a")
    assert json.loads((await run("context", "show", "--json"))[1])["endpoint"] == "two"
    await run("context", "use", "default")
    assert "no current context" in (await run("context", "show"))[1]
    await run("context", "use", "a")
    code, printed = await run("context", "remove", "a", "--json")
    assert (code, "--yes" in printed) == (2, True)
    code, printed = await run("context", "remove", "a", "--yes", "--json")
    assert json.loads(printed) == {"removed": "a", "current": "default"}
    for words in (("use", "a"), ("show", "a"), ("remove", "a", "--yes")):
        code, printed = await run("context", *words)
        assert code == 1
        assert "there is no context 'a'" in printed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--user", "alice"), "the secret key of 'alice' is missing"),
        (("--tls-cert", "c.pem"), "does not exist"),
        (("--secret-key-file", "none"), "without --access-key"),
        (("--user", "alice", "--secret-key-file", "none"), "none cannot be read"),
        (("--endpoint", "ftp://x"), "is no endpoint"),
    ],
)
async def test_half_a_context_is_not_saved(config: Path, words: tuple[str, ...], told: str) -> None:
    code, printed = await run("context", "add", "a", "--endpoint", "x", *words)
    assert code in (1, 2)
    assert told in printed
    assert not mode_of(config)


async def test_a_secret_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    alice = ("--user", "alice", "--secret-key-file", secret(tmp_path, mode=0o644))
    code, printed = await run("topic", "list", "--endpoint", "127.0.0.1:1", *alice)
    assert code == 2
    assert "chmod 600" in printed


async def test_a_command_shows_its_certificate(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    own, other = self_signed(ours, "localhost"), self_signed(theirs, "alice")
    wants_one = grpc.ssl_server_credentials(
        [(own.key.read_bytes(), own.certificate.read_bytes())],
        root_certificates=other.certificate.read_bytes(),
        require_client_auth=True,
    )
    async with serving(tmp_path) as behind:
        server = SignedServer(behind, USERS)
        async with server.serving(wants_one) as endpoint:
            at = ("--endpoint", f"https://{endpoint}", "--tls-ca", str(own.certificate))
            shown = ("--tls-cert", str(other.certificate), "--tls-key", str(other.key))
            alice = ("--user", "alice", "--secret-key-file", secret(tmp_path))
            for words in (("topic", "list"), ("send", "t", "x"), ("doctor",)):
                code, printed = await run(*words, *at, *shown, *alice)
                assert code == 0, (words, printed)
            assert (await run("context", "add", "m", *at, *shown, *alice))[0] == 0
            assert (await run("topic", "list", "--context", "m"))[0] == 0
            for words in (("topic", "list"), ("send", "t", "x")):
                code, printed = await run(*words, *at, *alice)
                assert code == 3
                assert "it may ask for your certificate: --tls-cert FILE --tls-key FILE" in printed
            code, printed = await run("doctor", *at, *alice)
            assert (code, "--tls-cert" in printed) == (1, True)
            code, printed = await run("topic", "list", *at, *shown[:2])
            assert (code, "--tls-key" in printed) == (2, True)
