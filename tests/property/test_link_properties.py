"""Whatever a message's properties say: it is stored or refused, and the broker lives on with it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.broker import QUICK_DISK, EngineDriver
from harness.names import GROUP, TOPIC

from popmq_common.errors import PopMQError
from popmq_common.records import hosts
from popmq_common.records import properties as names
from popmq_internal.v1 import link_pb2 as link

VALUES = [
    b"",
    b"x",
    b"\xff",
    b"0",
    b"-1",
    b"1.5",
    b"\xc2\xb2",  # a digit to Python's isdigit, no number to its int
    b"9" * 17,
    b"9" * 18,
    b"9" * 19,
    b"9" * 400,
    b"9" * 5_000,
    b"1@2",
    b"1@2@3",
    b"a@b@c",
    b"t@0",
    b"rmq_sys_REVIVE_LOG_PopMQ",
]
NAMES = sorted(names.INTERNAL | {"", "colour", "TRAN_PREPARED_QUEUE_OFFSET", "DLQ_ATTEMPTS"})
KINDS = [link.SEND_KIND_NORMAL, link.SEND_KIND_DELAY, link.SEND_KIND_HALF]


@pytest.fixture
def driver() -> Iterator[EngineDriver]:
    with tempfile.TemporaryDirectory(dir=QUICK_DISK) as folder:
        made = EngineDriver(Path(folder), segment_bytes=64 * 1024)
        made.make(max_attempts=2)
        yield made
        made.close()


def sent(driver: EngineDriver, kind: int, properties: bytes) -> link.SendReply | None:
    record = link.OutgoingRecord(body=b"x", born_host=hosts.LOCAL, properties=properties)
    request = link.Send(topic=TOPIC, queue_id=0, records=[record])
    request.kind = kind  # type: ignore[assignment] # an int is one
    try:
        return driver.call(send=request).send
    except PopMQError:
        return None


def use(driver: EngineDriver) -> None:
    """All that happens to messages, until nothing is left of them."""
    for _ in range(8):
        held = driver.pop()
        driver.nack(*[one.handle for one in held[::2]], delay_ms=0)
        driver.advance(60_000)
    driver.dead_letters(whole=True)
    driver.redrive()
    driver.call(find_messages=link.FindMessages(topic=TOPIC, key="x", count_max=64))
    driver.call(explain=link.Explain(message_id="id", topic=TOPIC, group=GROUP))
    driver.call(list_transactions=link.ListTransactions(count_max=100))
    driver.poll_checks(TOPIC)


def written_down(driver: EngineDriver) -> None:
    broker = driver.broker
    driver.run(broker.timer_keeper.write(at_once=True))
    driver.run(broker.offsets.write())
    assert driver.run(broker.state.runtime.store.checkpoint())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_no_property_of_a_message_ends_a_broker(
    kind: "link.SendKind.ValueType", name: str, driver: EngineDriver
) -> None:
    due = b"" if name == names.DELIVER_MS else b"TIMER_DELIVER_MS\x014000000000000\x02"
    halves: list[tuple[int, int]] = []
    for value in VALUES:
        whole = b"UNIQ_KEY\x01id\x02%b%b\x01%b\x02" % (due, name.encode(), value)
        reply = sent(driver, kind, whole)
        if reply is not None and reply.log_offsets:
            halves.append((reply.queue_offset, reply.log_offsets[0]))
    written_down(driver)
    use(driver)
    for half in halves[:2]:
        driver.end(half, commit=True)
    driver.restart()
    use(driver)
    driver.send("after")
    bodies: list[Any] = []
    while held := driver.pop(count=32):
        bodies += [one.body for one in held]
        driver.ack(*[one.handle for one in held])
    assert b"after" in bodies
    written_down(driver)
