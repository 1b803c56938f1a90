"""What 10,000 messages cost in each mode: records and fdatasyncs are counted, time is printed."""

import time
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import ack_body, pop_body, send_body

from popmq_broker.config import PopBuffer
from popmq_internal.v1 import link_pb2 as link

MESSAGES = 10_000
SEND = 1_000


def send(driver: EngineDriver, count: int) -> None:
    body = send_body("x" * 100)
    record = body["send"].records[0]
    body["send"].records.extend([record] * (SEND - 1))
    for _ in range(count // SEND):
        driver.call(**body)


async def consume(driver: EngineDriver, count: int, batch: int) -> None:
    got = 0
    while got < count:
        popped = await driver.handle(link.Call(**pop_body(batch, 60_000)))
        handles = [message.handle for message in popped.pop.messages]
        request = ack_body(handles)
        await driver.handle(link.Call(**request))
        got += len(handles)


@pytest.mark.parametrize(
    ("mode", "count", "batch", "records"),
    [
        (PopBuffer.DURABLE, MESSAGES, 32, 2 * 313),
        (PopBuffer.MEMORY, MESSAGES, 32, 0),
        (PopBuffer.DURABLE, 1_000, 1, 2_000),
        (PopBuffer.MEMORY, 1_000, 1, 0),
    ],
)
def test_what_pop_and_ack_write(
    tmp_path: Path, mode: PopBuffer, count: int, batch: int, records: int
) -> None:
    driver = EngineDriver(
        tmp_path, pop_buffer=mode, segment_bytes=64 << 20, queue_file_bytes=6_000_000
    )
    driver.make(queues=1)
    send(driver, count)
    synced: list[int] = []
    driver.broker.state.runtime.store.synced = lambda _seconds, covered: synced.append(covered)
    began, began_cpu = time.perf_counter(), time.process_time()
    driver.run(consume(driver, count, batch))
    took_us = (time.perf_counter() - began) / count * 1e6
    cpu_us = (time.process_time() - began_cpu) / count * 1e6
    print(f"{mode}, batch {batch}: {took_us:.0f} µs a message, {cpu_us:.0f} µs of CPU")
    assert sum(synced) == records
    assert len(synced) == records  # one consumer waits for each
    assert driver.broker.state.lease_state.table.live_count == 0
    driver.close()
