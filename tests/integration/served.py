"""What tests of the SDK's levels share: a standalone in this process, groups, and waiting."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from click.testing import CliRunner, Result

from popmq import App, Client, Credentials, Message
from popmq.errors import Unauthorized
from popmq_admin.v1 import admin_pb2 as admin
from popmq_admin.v1 import admin_pb2_grpc as admin_grpc
from popmq_broker.config import BrokerConfig
from popmq_cli.main import main
from popmq_common.process.clock import SystemClock
from popmq_proxy.config import ProxyConfig
from popmq_standalone.app import standalone


@asynccontextmanager
async def serving(folder: Path, port: int = 0, **proxy_settings: Any) -> AsyncIterator[str]:
    """Its endpoint. Short invisible times are allowed."""
    broker = BrokerConfig(create_groups=True, data_dir=folder / "data", disk_reserve_bytes=0)
    settings: dict[str, Any] = {"invisible_ms_min": 50, "log_level": "error", **proxy_settings}
    proxy = ProxyConfig(create_topics=True, port=port, **settings)
    async with standalone(broker, proxy, SystemClock()) as served:
        yield f"127.0.0.1:{served.proxy.port}"


async def make_group(endpoint: str, name: str, *, fifo: bool = False) -> None:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        group = admin.Group(name=name, consume_from="FIRST", fifo=fifo, max_attempts=16)
        await admin_grpc.AdminStub(channel).CreateGroup(admin.CreateGroupRequest(group=group))


async def send_all(client: Client, topic: str, messages: list[Message]) -> None:
    await client.producer().send_many(topic, messages)


async def send(endpoint: str, topic: str, *bodies: str) -> None:
    """One after the other, round robin over the queues."""
    async with Client(endpoint) as client:
        for body in bodies:
            await client.send(topic, body.encode())


async def until(reached: Callable[[], bool], within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@asynccontextmanager
async def running(app: App) -> AsyncIterator[None]:
    task = asyncio.create_task(app.run(signals=False))
    try:
        yield
    finally:
        app.stop()
        await task


async def dead_letters(endpoint: str, group: str) -> list[admin.DeadLetter]:
    async with grpc.aio.insecure_channel(endpoint) as channel:
        request = admin.ListDeadLettersRequest(group=group)
        reply = await admin_grpc.AdminStub(channel).ListDeadLetters(request)
    return list(reply.letters)


async def left(endpoint: str, group: str) -> int:
    """Messages of topic `t` that the group could get now."""
    async with Client(endpoint) as client:
        return len(await client.receive("t", group, wait_s=0, invisible_s=0.1))


def popmq(*arguments: str, code: int = 0) -> Result:
    """The command, in this process; it ends with `code`."""
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code, done.output
    return done


OPERATOR = "operator"
SECRET = "secret-of-operator-0123456789"


@asynccontextmanager
async def serving_users(folder: Path) -> AsyncIterator[str]:
    """A server that asks who calls and what they may do; the Super user `OPERATOR` is known."""
    first = folder / "first-user.json"
    first.write_text(json.dumps({"username": OPERATOR, "password": SECRET}))
    first.chmod(0o600)
    settings: dict[str, Any] = {"authentication": True, "authorization": True}
    async with serving(folder, **settings, init_user_file=first) as endpoint:
        async with Client(endpoint, credentials=Credentials(OPERATOR, SECRET)) as client:
            await _until_known(client)
        yield endpoint


async def _until_known(client: Client) -> None:
    """The proxy makes the first user when it has read that there are none."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.admin.list_topics()
                return
            except Unauthorized:
                await asyncio.sleep(0.02)
