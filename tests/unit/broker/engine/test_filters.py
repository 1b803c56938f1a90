"""Filters in the engine: what they reject holds up nothing, is no lag, and stops nobody else."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import pop_body, popped
from harness.names import GROUP, TOPIC

from popmq_broker.engine.leases import poll as poll_module
from popmq_broker.engine.leases.queue_scan import SCAN_RECORDS_MAX
from popmq_common.records import hosts, properties
from popmq_internal.v1 import link_pb2 as link

SEND_COUNT = 500


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    driver = EngineDriver(tmp_path, segment_bytes=4 << 20, queue_file_bytes=20_000)
    yield driver
    driver.close()


def record(number: int, tag: str = "no") -> link.OutgoingRecord:
    named = {"UNIQ_KEY": f"id-{number}", "TAGS": tag, "number": str(number)}
    return link.OutgoingRecord(
        body=b"%d" % number,
        properties=properties.encode(named),
        born_timestamp_ms=7,
        born_host=hosts.LOCAL,
    )


def fill(driver: EngineDriver, count: int, start: int = 0) -> None:
    numbers = range(start, start + count)
    for at in range(0, count, SEND_COUNT):
        records = [record(number) for number in numbers[at : at + SEND_COUNT]]
        driver.call(send=link.Send(topic=TOPIC, queue_id=0, records=records))


def lag(driver: EngineDriver) -> int:
    status = driver.call(describe=link.Describe(group=GROUP)).describe.groups[0]
    return sum(queue.max_offset - queue.committed_offset for queue in status.queues)


def polling(sql: str = "", tag: str = "", poll_ms: int = 10_000) -> link.Call:
    body = pop_body(32, 10_000, tag, sql=sql)
    body["pop"].poll_ms = poll_ms
    return link.Call(**body)


@pytest.mark.parametrize("fifo", [False, True])
def test_t32_one_match_in_ten_thousand_comes_with_one_pop(
    driver: EngineDriver, fifo: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others get their turn in between; the poll goes on by itself until it has seen all."""
    monkeypatch.setattr(poll_module, "SCAN_PAST_POLL_S", 60.0)  # of a machine that is busy
    driver.make(queues=1, fifo=fifo)
    fill(driver, 10_000)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += (
                driver.broker.state.lease_state.table.live_count == 0
            )  # later the disk is awaited
            await asyncio.sleep(0)

    async def receive() -> link.Reply:
        others_run = asyncio.ensure_future(others())
        reply = await driver.handle(link.Call(**pop_body(1, 10_000, sql="number = 9999")))
        others_run.cancel()
        return reply

    reply = driver.run(receive())
    assert [popped(message).body for message in reply.pop.messages] == [b"9999"]
    assert turns >= 10_000 // SCAN_RECORDS_MAX


def test_t32_a_scan_that_takes_long_ends_and_the_next_goes_on(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll_module, "SCAN_PAST_POLL_S", -1.0)  # one look is too long already
    driver.make(queues=1)
    fill(driver, 3 * SCAN_RECORDS_MAX)
    wanted = f"number = {3 * SCAN_RECORDS_MAX - 1}"
    found = [len(driver.pop(1, sql=wanted)) for _ in range(3)]
    assert found == [0, 0, 1]


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize(("sql", "tag"), [("number < 0", ""), ("", "yes")])
def test_t53_a_range_that_is_all_filtered_out_is_passed(
    driver: EngineDriver, fifo: bool, sql: str, tag: str
) -> None:
    driver.make(queues=1, fifo=fifo)
    fill(driver, 3 * SCAN_RECORDS_MAX)
    last = record(-5, "yes")
    driver.call(send=link.Send(topic=TOPIC, queue_id=0, records=[last]))
    messages = driver.pop(32, sql=sql, expression=tag)
    assert [message.body for message in messages] == [b"-5"]
    driver.ack(messages[0].handle)
    assert lag(driver) == 0


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize(("sql", "tag"), [("number < 0", ""), ("", "yes")])
def test_t65_a_tail_that_is_filtered_out_is_no_lag(
    driver: EngineDriver, fifo: bool, sql: str, tag: str
) -> None:
    driver.make(queues=1, fifo=fifo)
    fill(driver, 100)
    assert driver.pop(32, sql=sql, expression=tag) == []
    assert lag(driver) == 0
    driver.restart()
    assert lag(driver) == 0


def test_t65_what_comes_while_an_sql_poll_waits_is_no_lag_either(driver: EngineDriver) -> None:
    driver.make(queues=1)

    async def arrive() -> tuple[int, link.Reply]:
        poll = asyncio.ensure_future(driver.handle(polling("number = 7")))
        await asyncio.sleep(0)
        for number in range(7):
            await driver.handle(
                link.Call(send=link.Send(topic=TOPIC, queue_id=0, records=[record(number)]))
            )
        await asyncio.sleep(0.05)  # arrivals gather for some milliseconds
        describe = link.Call(describe=link.Describe(group=GROUP))
        status = (await driver.handle(describe)).describe.groups[0].queues[0]
        behind = status.max_offset - status.committed_offset
        await driver.handle(link.Call(send=link.Send(topic=TOPIC, queue_id=0, records=[record(7)])))
        return behind, await poll

    behind, reply = driver.run(arrive())
    assert behind == 0
    assert [popped(message).body for message in reply.pop.messages] == [b"7"]


def test_two_groups_with_two_filters_get_their_own(driver: EngineDriver) -> None:
    driver.make(queues=1)
    driver.call(
        put_group=link.PutGroup(
            group=link.GroupConfig(name="h", max_attempts=16, consume_from="FIRST")
        )
    )
    fill(driver, 40)
    low = driver.pop(32, sql="number < 10")
    other = pop_body(32, 10_000, sql="number >= 30")
    other["pop"].group = "h"
    high = [popped(message) for message in driver.call(**other).pop.messages]
    assert [int(message.body) for message in low] == list(range(10))
    assert [int(message.body) for message in high] == list(range(30, 40))
