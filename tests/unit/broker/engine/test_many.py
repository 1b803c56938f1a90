"""Thousands of topics and groups: each takes as much work as the first. Work is counted, not timed;
`make extremes ONLY=topics` has 20,000 of each, and a clock."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from harness.broker import EngineDriver

from popmq_broker.engine.catalog.register import Registrar
from popmq_broker.engine.catalog.topics import Announced
from popmq_common.records.names import CATALOG_TOPIC
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns

COUNT = 2_000
AT_ONCE = 300
PART = 200
"""So many of the first are compared with so many of the last."""
SLACK = 1.2


def topic(number: int) -> dict[str, Any]:
    made = link.TopicConfig(
        name=f"t{number:06}", read_queues=8, write_queues=8, message_type="NORMAL"
    )
    return {"put_topic": link.PutTopic(topic=made, create=True)}


def group(number: int) -> dict[str, Any]:
    made = link.GroupConfig(name=f"g{number:06}", max_attempts=16)
    return {"put_group": link.PutGroup(group=made, create=True)}


class Nameserver:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.calls = self.topics = 0

    async def register(self, request: ns.RegisterRequest) -> bool:
        self.topics += len(request.topics)
        return True

    async def update(self, request: ns.UpdateRequest) -> bool:
        self.calls += 1
        self.topics += len(request.topics)
        await asyncio.sleep(0)
        return True

    async def heartbeat(self, broker: ns.BrokerInfo) -> bool:
        return True

    async def unregister(self, broker: ns.BrokerInfo) -> None:
        return


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path, segment_bytes=1 << 22, queue_file_bytes=20 * COUNT)
    yield made
    made.close()


@pytest.fixture
def nameserver(driver: EngineDriver) -> Nameserver:
    found = Nameserver()
    state = driver.broker.state
    registrar = Registrar(
        found, ns.BrokerInfo(name="b"), Announced(state.catalog_state), state.runtime.log
    )
    driver.run(registrar.announce())
    driver.broker.topics.announce = registrar.announce
    return found


def files(driver: EngineDriver) -> dict[str, bytes]:
    """What is in config/."""
    return {path.name: path.read_bytes() for path in (driver.data_dir / "config").iterdir()}


def calls_of(work: Callable[[], None]) -> int:
    """Functions that were called meanwhile, in C too."""
    count = 0

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("body", [topic, group], ids=lambda body: body.__name__)
def test_the_last_takes_as_much_work_as_the_first(
    driver: EngineDriver,
    nameserver: Nameserver,
    body: Callable[[int], dict[str, Any]],
) -> None:
    """A record of the log each, no file, and the nameserver hears of each topic once."""
    store = driver.broker.state.runtime.store
    told, records = nameserver.topics, store.max_offset(CATALOG_TOPIC, 0)
    before = files(driver)

    def make(start: int, end: int) -> tuple[int, int]:
        """(functions called, bytes of the log)"""
        log_end = store.log_end

        def work() -> None:
            for number in range(start, end):
                driver.call(**body(number))

        return calls_of(work), store.log_end - log_end

    first = make(0, PART)
    make(PART, COUNT - PART)
    last = make(COUNT - PART, COUNT)
    assert store.max_offset(CATALOG_TOPIC, 0) - records == COUNT
    assert nameserver.topics - told == (COUNT if body is topic else 0)
    assert files(driver) == before
    driver.run(driver.broker.catalog.save())
    assert files(driver) != before
    for begin, end in zip(first, last, strict=True):
        assert end < SLACK * begin, (first, last)


def test_many_at_once_are_announced_together(driver: EngineDriver, nameserver: Nameserver) -> None:
    store = driver.broker.state.runtime.store
    records, told = store.max_offset(CATALOG_TOPIC, 0), nameserver.topics

    async def at_once() -> None:
        bodies = [body(number) for number in range(AT_ONCE) for body in (topic, group)]
        await asyncio.gather(*(driver.handle(link.Call(**body)) for body in bodies))

    driver.run(at_once())
    assert store.max_offset(CATALOG_TOPIC, 0) - records == 2 * AT_ONCE
    assert nameserver.topics - told == AT_ONCE
    assert nameserver.calls < AT_ONCE / 10
