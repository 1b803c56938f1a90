"""How leases are renewed where handles are another server's: one by one."""

import asyncio
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from unit.sdk.idempotence.made import Clock
from unit.sdk.idempotence.made import message as made

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq.connection.unknown_calls import TRIED_AGAIN_S, UnknownCalls
from popmq.consumer import lease
from popmq.consumer.lease import ALONE_UNDER_WAY_MAX, Leases

ROCKETMQS = "7 1700000000000 60000 3 0 broker-a 2 7 4711"
"""A handle of nine fields."""
POPMQS = f"{ROCKETMQS} 1 0a1b2c3d"
COUNT = 2 * ALONE_UNDER_WAY_MAX


class NeverAnswered:
    """An RPC whose calls stay under way."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def future(self, request: Any, **_: Any) -> Future[Any]:
        self.asked.append(request)
        return Future()


@pytest.fixture
def rpcs(monkeypatch: pytest.MonkeyPatch) -> dict[str, NeverAnswered]:
    found = {"ChangeInvisibleDuration": NeverAnswered(), "ExtendRuns": NeverAnswered()}
    stubs = lease._ServerStubs(
        SimpleNamespace(close=lambda: None),
        SimpleNamespace(ChangeInvisibleDuration=found["ChangeInvisibleDuration"]),
        SimpleNamespace(ExtendRuns=found["ExtendRuns"]),
    )
    monkeypatch.setattr(Leases, "_open", lambda _self, _address: stubs)
    return found


def connection(unknown: UnknownCalls | None = None) -> Any:
    return SimpleNamespace(
        addresses=["127.0.0.1:1"],
        timeout_s=1.0,
        resource=lambda name: v2.Resource(name=name),
        metadata=lambda: (),
        check=lambda _status, _rpc: None,
        unknown=unknown or UnknownCalls(),
    )


async def until_asked(rpc: NeverAnswered, count: int) -> None:
    for _ in range(2_000):
        if len(rpc.asked) >= count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(rpc.asked)} of {count} renewals were asked for")


async def test_another_servers_handles_are_renewed_one_by_one(
    rpcs: dict[str, NeverAnswered],
) -> None:
    leases = Leases(connection())
    first = replace(made(), receipt_handle=ROCKETMQS)
    leases.hold([first], 0.2, 60.0, print)
    alone = rpcs["ChangeInvisibleDuration"]
    await until_asked(alone, 1)
    assert isinstance(alone.asked[0], service.ChangeInvisibleDurationRequest)
    others = [replace(made(), receipt_handle=ROCKETMQS) for _ in range(COUNT)]
    leases.hold(others, 0.2, 60.0, print)
    await until_asked(alone, ALONE_UNDER_WAY_MAX)
    await asyncio.sleep(0.2)
    assert len(alone.asked) == ALONE_UNDER_WAY_MAX, "the others wait for room"
    assert rpcs["ExtendRuns"].asked == []
    await leases.close()


async def test_renewals_do_not_put_off_the_next_try_by_runs(rpcs: dict[str, NeverAnswered]) -> None:
    """A server that is upgraded while leases are renewed is noticed."""
    clock = Clock()
    unknown = UnknownCalls(clock)
    unknown.add(lease.EXTEND_RUNS)
    leases = Leases(connection(unknown))
    alone, by_runs = rpcs["ChangeInvisibleDuration"], rpcs["ExtendRuns"]
    leases.hold([replace(made(), receipt_handle=POPMQS)], 0.2, 60.0, print)
    await until_asked(alone, 1)
    clock.now_s += TRIED_AGAIN_S - 1
    leases.hold([replace(made(), receipt_handle=POPMQS)], 0.2, 60.0, print)
    await until_asked(alone, 2)
    clock.now_s += 1
    leases.hold([replace(made(), receipt_handle=POPMQS)], 0.2, 60.0, print)
    await until_asked(by_runs, 1)
    assert len(alone.asked) == 2
    await leases.close()
