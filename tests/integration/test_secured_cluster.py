"""docs/security.md from its first command to a message: two brokers, two proxies, certificates on
every connection, users with policies."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from harness.processes import Server, cluster
from integration.served import popmq

from popmq import AccessDenied, Client, Credentials, Tls
from popmq_cli.main import main

PASSWORD = "a-long-password"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def secured(folder: Path) -> Iterator[Server]:
    made = json.loads(popmq("tls", "init", str(folder / "tls"), "--json").stdout)
    env: dict[str, str] = {}
    for service in made["services"].values():
        env |= service["environment"]
    first = folder / "first-user.json"
    first.touch(0o600)
    first.write_text(json.dumps({"username": "operator", "password": PASSWORD}))
    env |= {
        "POPMQ_PROXY_AUTHENTICATION": "true",
        "POPMQ_PROXY_AUTHORIZATION": "true",
        "POPMQ_PROXY_INIT_USER_FILE": str(first),
        "POPMQ_PROXY_TLS_CLIENT_AUTH": "optional",
        "POPMQ_PROXY_TLS_ONLY": "true",
    }
    with cluster(folder, env) as server:
        yield server


@pytest.fixture(scope="module")
def operator(folder: Path, secured: Server) -> list[str]:
    """Options of a command of who shows the operator's certificate."""
    tls = folder / "tls"
    at = ["--endpoint", f"https://{secured.endpoint}", "--tls-ca", str(tls / "ca.pem")]
    return [*at, "--tls-cert", str(tls / "operator.pem"), "--tls-key", str(tls / "operator.key")]


async def ask(*arguments: str) -> Result:
    """A command that asks the server."""
    return await asyncio.to_thread(CliRunner().invoke, main, arguments)


async def do(*arguments: str) -> str:
    done = await ask(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


async def until_known(operator: list[str]) -> None:
    """The first user is made when all brokers have told that there is none."""
    async with asyncio.timeout(30):
        while (await ask("user", "list", *operator)).exit_code:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def proxies(secured: Server) -> list[str]:
    names = [name for name in secured.processes if name.startswith("proxy")]
    return [f"localhost:{secured.processes[name].port}" for name in names]


async def test_from_the_first_user_to_a_message(
    folder: Path, secured: Server, operator: list[str]
) -> None:
    await until_known(operator)
    await do("topic", "create", "orders", *operator)
    await do("group", "create", "billing", "--from", "first", *operator)
    made = json.loads(await do("user", "create", "shop", "--json", *operator))
    await do("acl", "create", "shop", "--resource", "Topic:orders", *allowing("Pub"), *operator)
    popmq("tls", "client", str(folder / "tls"), "biller")
    await do("user", "create", "biller", "--no-secret", *operator)
    for resource in ("Topic:orders", "Group:billing"):
        await do("acl", "create", "biller", "--resource", resource, *allowing("Sub"), *operator)
    await asyncio.sleep(1.2)  # the other proxy looks each second

    tls = Tls.from_files(ca=folder / "tls" / "ca.pem")
    shows = Tls.from_files(
        ca=folder / "tls" / "ca.pem",
        certificate=folder / "tls" / "biller.pem",
        key=folder / "tls" / "biller.key",
    )
    for proxy in proxies(secured):
        endpoint = f"https://{proxy}"
        shop = Client(endpoint, tls=tls, credentials=Credentials("shop", made["secret"]))
        biller = Client(endpoint, tls=shows, credentials=False)
        async with asyncio.timeout(60), shop, biller:
            await shop.send("orders", b"one")
            async with biller.consumer("orders", "billing") as consumer:
                (message,) = await consumer.receive()
                assert message.body == b"one"
                await message.ack()
            with pytest.raises(AccessDenied, match="Topic:orders"):
                await biller.send("orders", b"not mine to send")
            with pytest.raises(AccessDenied):
                async with shop.consumer("orders", "billing") as other:
                    await other.receive()


async def test_nobody_else_gets_an_answer(
    folder: Path, secured: Server, operator: list[str]
) -> None:
    await until_known(operator)
    tls = Tls.from_files(ca=folder / "tls" / "ca.pem")
    for client in (
        Client(f"https://{secured.endpoint}", tls=tls, credentials=False),
        Client(f"https://{secured.endpoint}", tls=tls, credentials=Credentials("shop", "guessed")),
    ):
        async with asyncio.timeout(30), client:
            with pytest.raises(AccessDenied):
                await client.send("orders", b"x")
    plain = await ask("topic", "list", "--endpoint", f"http://{secured.endpoint}")
    assert plain.exit_code != 0
    assert "orders" not in plain.output


async def test_a_revoked_user_is_out_at_every_proxy_within_a_second(
    folder: Path, secured: Server, operator: list[str]
) -> None:
    await until_known(operator)
    made = json.loads(await do("user", "create", "leaver", "--super", "--json", *operator))
    await do("topic", "create", "left", *operator)
    await asyncio.sleep(1.2)
    tls = Tls.from_files(ca=folder / "tls" / "ca.pem")
    credentials = Credentials("leaver", made["secret"])
    clients = [
        Client(f"https://{one}", tls=tls, credentials=credentials) for one in proxies(secured)
    ]
    async with asyncio.timeout(60), clients[0], clients[1]:
        for client in clients:
            await client.send("left", b"x")
        await do("user", "update", "leaver", "--disable", *operator)
        await asyncio.sleep(1.2)
        for client in clients:
            with pytest.raises(AccessDenied, match="disabled"):
                await client.send("left", b"x")


async def test_users_outlive_kill_9_of_both_brokers(secured: Server, operator: list[str]) -> None:
    await until_known(operator)
    await do("user", "create", "stays", *operator)
    for name in ("broker-a", "broker-b"):
        secured.processes[name].kill()
    for name in ("broker-a", "broker-b"):
        secured.processes[name].start()
    async with asyncio.timeout(60):
        while "stays" not in (await ask("user", "list", *operator)).output:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


def allowing(*actions: str) -> list[str]:
    return ["--action", ",".join(actions), "--decision", "allow"]
