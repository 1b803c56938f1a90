"""popmq tls init, and then a cluster whose every connection shows certificates on both ends."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.processes import Server, cluster, free_port
from integration.served import popmq

from popmq import Client, Tls
from popmq_cli.cluster.probe import context, serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster") / "tls"


@pytest.fixture(scope="module")
def secured(folder: Path) -> Iterator[Server]:
    made = json.loads(popmq("tls", "init", str(folder), "--json").stdout)
    env: dict[str, str] = {}
    for service in made["services"].values():
        env |= service["environment"]
    port = free_port()
    for name in ("CERT", "KEY"):
        env[f"POPMQ_BROKER_METRICS_TLS_{name}"] = env[f"POPMQ_BROKER_LINK_TLS_{name}"]
    env["POPMQ_BROKER_METRICS_TLS_CLIENT_CA"] = made["services"]["proxy"]["environment"][
        "POPMQ_PROXY_TLS_CLIENT_CA"
    ]
    env["POPMQ_BROKER_METRICS_PORT"] = str(port)
    with cluster(folder.parent, env, brokers=1, proxies=1) as server:
        server.tls_endpoint = f"https://localhost:{port}/metrics"
        yield server


def shown(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.pem", folder / f"{name}.key"


def options(folder: Path, name: str) -> list[str]:
    certificate, key = shown(folder, name)
    files = {"--tls-ca": folder / "ca.pem", "--tls-cert": certificate, "--tls-key": key}
    return [str(word) for pair in files.items() for word in pair]


async def test_a_message_goes_through_it(folder: Path, secured: Server) -> None:
    popmq("tls", "client", str(folder), "alice")
    certificate, key = shown(folder, "alice")
    tls = Tls.from_files(ca=folder / "ca.pem", certificate=certificate, key=key)
    client = Client(f"https://{secured.endpoint}", tls=tls)
    async with asyncio.timeout(60), client, client.consumer("t", "g") as consumer:
        await consumer.receive(wait_s=0)
        await client.send("t", b"hello")
        (message,) = await consumer.receive()
        assert message.body == b"hello"
        await message.ack()


def test_health_checks_reach_it(folder: Path, secured: Server) -> None:
    nameserver = f"127.0.0.1:{secured.processes['nameserver'].port}"
    operator, service = options(folder, "operator"), options(folder, "broker")
    popmq("health", secured.endpoint, *operator)
    popmq("health", nameserver, *service)
    popmq("health", secured.tls_endpoint, *operator)
    for target, right in ((secured.endpoint, operator), (nameserver, service)):
        command = [sys.executable, "-m", "popmq_cli.cluster.probe", target]
        assert subprocess.run([*command, *right], timeout=60).returncode == 0
        assert subprocess.run(command, timeout=60, capture_output=True).returncode == 3
    popmq("health", secured.endpoint, "--tls", code=3)
    popmq("health", nameserver, *operator, code=3)
    popmq("health", secured.tls_endpoint, *service, code=3)


def test_who_lets_handshakes_fail_fills_no_log(folder: Path, secured: Server) -> None:
    sizes = [process.log.stat().st_size for process in secured.processes.values()]
    for _ in range(30):
        for port in [process.port for process in secured.processes.values()]:
            with pytest.raises(OSError, match=r"."):
                serving(f"127.0.0.1:{port}", 5, context())
    grown = [
        process.log.stat().st_size - size
        for process, size in zip(secured.processes.values(), sizes, strict=True)
    ]
    assert max(grown) < 1_000
