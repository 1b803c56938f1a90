"""How a test speaks to a register in etcd that may not answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from harness.etcd_server import EtcdMember

from popmq_broker.clients.register.register import CALL_S
from popmq_common.errors import RegisterUnreachable

SLACK_S = 1.0
"""What a busy machine may add to a bound."""


def url(members: list[EtcdMember], scheme: str = "etcd") -> str:
    return f"{scheme}://{','.join(member.address for member in members)}"


async def until_answered(call: Callable[[], Awaitable[object]]) -> None:
    end_s = time.monotonic() + 30
    while True:
        try:
            await call()
            return
        except RegisterUnreachable:
            assert time.monotonic() < end_s
            await asyncio.sleep(0.1)


async def unreachable(call: Awaitable[object]) -> str:
    """The reason, which comes in time."""
    began_s = time.monotonic()
    with pytest.raises(RegisterUnreachable) as found:
        await call
    assert time.monotonic() - began_s < CALL_S + SLACK_S
    return str(found.value)
