"""`popmq doctor` pointed at each port of a cluster, and at clusters that lack something."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from harness.processes import free_port
from integration.served import serving

from popmq_broker.app import server
from popmq_broker.config import BrokerConfig
from popmq_cli.doctor import doctor as doctor_command
from popmq_cli.main import main
from popmq_common.process.clock import SystemClock
from popmq_nameserver.app import Nameserver, nameserver
from popmq_nameserver.config import NameserverConfig
from popmq_proxy.app import proxy
from popmq_proxy.config import ProxyConfig


async def doctor(port: int, *arguments: str) -> dict[str, str]:
    """Findings: code → why."""
    command = ["doctor", "--endpoint", f"127.0.0.1:{port}", "--json", *arguments]
    done = await asyncio.to_thread(CliRunner().invoke, main, command)
    found = {one["code"]: one["why"] for one in json.loads(done.stdout)["findings"]}
    assert done.exit_code == (1 if found else 0)
    return found


async def start_nameserver(stack: AsyncExitStack) -> Nameserver:
    return await stack.enter_async_context(nameserver(NameserverConfig(port=0), SystemClock()))


async def start_proxy(stack: AsyncExitStack, nameserver_port: int) -> int:
    config = ProxyConfig(create_topics=True, port=0, nameservers=(f"127.0.0.1:{nameserver_port}",))
    return (await stack.enter_async_context(proxy(config, SystemClock()))).port


def broker_config(folder: Path, nameserver_port: int) -> BrokerConfig:
    return BrokerConfig(
        create_groups=True,
        data_dir=folder,
        port=0,
        disk_reserve_bytes=0,
        disk_clean_percent=100,
        disk_refuse_percent=100,
        index_slots=1_000,
        nameservers=(f"127.0.0.1:{nameserver_port}",),
    )


async def test_each_port_of_a_cluster(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        names = await start_nameserver(stack)
        config = replace(broker_config(tmp_path, names.port), metrics_port=free_port())
        broker = await stack.enter_async_context(server(config, SystemClock()))
        async with asyncio.timeout(20):
            while not names.table.brokers():  # noqa: ASYNC110 - nothing tells of a registration
                await asyncio.sleep(0.02)
        port = await start_proxy(stack, names.port)
        assert await doctor(port) == {}
        found = await doctor(names.port)
        assert found["not-popmq"] == "it is a nameserver of PopMQ, for brokers and proxies"
        found = await doctor(broker.port)
        assert "broker broker-a of PopMQ listens there" in found["endpoint-link"]
        assert list(await doctor(config.metrics_port)) == ["endpoint-http"]
        assert await doctor(port, "--tls") == {"tls-untrusted": "self-signed certificate"}


async def test_clusters_that_lack_something(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        assert list(await doctor(await start_proxy(stack, free_port()))) == ["no-nameserver"]
        names = await start_nameserver(stack)
        port = await start_proxy(stack, names.port)
        assert list(await doctor(port)) == ["no-broker"]
        config = replace(broker_config(tmp_path, names.port), advertise=f"127.0.0.1:{free_port()}")
        await stack.enter_async_context(server(config, SystemClock()))
        async with asyncio.timeout(20):
            while not names.table.brokers():  # noqa: ASYNC110 - nothing tells of a registration
                await asyncio.sleep(0.02)
        port = await start_proxy(stack, names.port)
        assert list(await doctor(port)) == ["broker-down"]


async def test_who_reaches_a_server_that_asks_nobody_is_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told where others reach the endpoint. A server that has an admin secret tells it to those
    who show that."""
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef")

    async def others_reach_it(host: str) -> bool:
        return False

    async def notes(endpoint: str, *more: str) -> list[str]:
        command = ["doctor", "--endpoint", endpoint, "--json", *more]
        done = await asyncio.to_thread(CliRunner().invoke, main, command)
        assert done.exit_code in (0, 1), done.output
        found: list[str] = json.loads(done.stdout)["notes"]
        return [note for note in found if "anyone who reaches" in note]

    async with (
        serving(tmp_path / "open") as open_to_all,
        serving(tmp_path / "kept", admin_secret_file=secret) as kept,
    ):
        assert await notes(open_to_all) == []
        monkeypatch.setattr(doctor_command, "is_local", others_reach_it)
        (note,) = await notes(open_to_all)
        assert open_to_all in note
        assert await notes(kept) == []
        (note,) = await notes(kept, "--secret-file", str(secret))
        assert kept in note
