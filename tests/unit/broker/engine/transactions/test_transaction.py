"""Transactions in the broker: what is written, what is refused, what a start finds."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import end_body, send_body
from harness.names import TOPIC
from prometheus_client import generate_latest

from popmq_broker.core.transactions import transaction
from popmq_broker.metrics import registry
from popmq_broker.store.store import Draft
from popmq_common.errors import (
    AlreadySettled,
    DiskFull,
    InvalidTransactionId,
    TooManyTransactions,
    TopicNotFound,
)
from popmq_common.link.sends import SendDone
from popmq_common.records import hosts
from popmq_common.records import properties as names
from popmq_common.records.names import GIVEN_UP_TOPIC, HALF_GROUP, HALF_OP_TOPIC, HALF_TOPIC
from popmq_common.records.record import Record, SysFlag
from popmq_internal.v1 import link_pb2 as link

HOUR_MS = 3_600_000


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path, half_messages_max=4, transaction_checks_max=2)
    made.make()
    yield made
    made.close()


def records(driver: EngineDriver, topic: str, queue_id: int = 0) -> list[Record]:
    store = driver.broker.state.runtime.store
    found = []
    for entry in store.entries(topic, queue_id, 0, 1_000):
        record = store.read(entry.log_offset, entry.size_bytes)
        assert record is not None
        found.append(record)
    return found


def half_of(driver: EngineDriver, body: str, queue_id: int) -> tuple[int, int]:
    request = send_body(body, tag="red", queue_id=queue_id)
    request["send"].kind = link.SEND_KIND_HALF
    reply = driver.call(**request).send
    return reply.queue_offset, reply.log_offsets[0]


def append(driver: EngineDriver, topic: str, body: bytes, properties: dict[str, str]) -> None:
    """As RocketMQ would have written it."""
    draft = Draft(topic, 0, body, names.encode(properties), 0, 0, 0, 7, hosts.LOCAL)
    state = driver.broker.state

    async def stored() -> None:
        driver.broker.topics.ensure_system_copy_target(topic)
        (place,) = state.runtime.store.append([draft], state.runtime.clock.now_ms())
        await state.runtime.store.durable(place.end_offset)

    driver.run(stored())


def test_a_commit_writes_what_rocketmq_would(driver: EngineDriver) -> None:
    driver.end(half_of(driver, "first", 0), commit=False)
    offset, log_offset = half_of(driver, "a", 1)
    driver.end((offset, log_offset), commit=True)
    half = records(driver, HALF_TOPIC)[1]
    (final,) = records(driver, TOPIC, 1)
    assert (final.body, final.properties, final.flag) == (half.body, half.properties, half.flag)
    assert half.sys_flag == 0
    assert final.sys_flag == SysFlag.COMMIT
    assert final.prepared_offset == log_offset == half.log_offset
    assert (final.born_timestamp_ms, final.born_host) == (half.born_timestamp_ms, half.born_host)
    op = records(driver, HALF_OP_TOPIC)[1]
    assert (op.body, op.sys_flag, op.queue_id) == (b"1,", 0, 0)
    assert names.decode(op.properties)[names.TAGS] == "d"
    assert op.log_offset > final.log_offset


def test_its_tag_is_filtered_by_as_any_other(driver: EngineDriver) -> None:
    driver.end(half_of(driver, "a", 0), commit=True)
    assert driver.pop(expression="blue") == []
    driver.broker.state.lease_state.table.queues.clear()
    assert [message.body for message in driver.pop(expression="red")] == [b"a"]


def test_the_same_answer_again_waits_for_the_disk_too(driver: EngineDriver) -> None:
    half = driver.half("a")
    driver.hold_disk()
    first = driver.start(**end_body(half, commit=True))
    second = driver.start(**end_body(half, commit=True))
    assert not first.done()
    assert not second.done()
    driver.let_go_of_disk()
    driver.run(_both(first, second))


async def _both(*calls: Any) -> None:
    for call in calls:
        await call


def test_what_is_not_settled_is_bounded(driver: EngineDriver) -> None:
    halves = [driver.half(name) for name in "abc"]
    request = send_body("d")
    request["send"].kind = link.SEND_KIND_HALF
    request["send"].records.append(request["send"].records[0])
    with pytest.raises(TooManyTransactions, match=r"3 transactions .* the limit is 4"):
        driver.call(**request)
    driver.half("d")
    with pytest.raises(TooManyTransactions):
        driver.half("e")
    driver.send("normal ones go on")
    driver.end(halves[0], commit=False)
    driver.half("e")


def test_the_sends_of_one_frame_are_bounded_together(driver: EngineDriver) -> None:
    calls = []
    for i in range(6):
        request = send_body(f"m{i}")["send"]
        request.kind = link.SEND_KIND_HALF
        calls.append(link.Call(id=i, send=request))
    replies: list[link.Reply | SendDone] = []

    async def send() -> None:
        driver.broker.handle_sends(calls, replies.append)
        await driver.broker.state.runtime.store.durable(driver.broker.state.runtime.store.log_end)

    driver.run(send())
    done = [isinstance(reply, SendDone) for reply in sorted(replies, key=lambda one: one.id)]
    assert done == [True] * 4 + [False] * 2
    assert len(driver.poll_checks(TOPIC)) == 0
    assert len(driver.broker.state.halves) == 4


def test_a_full_disk_changes_nothing(driver: EngineDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    half = driver.half("a")
    store = driver.broker.state.runtime.store

    def full(*_: object, **__: object) -> None:
        raise DiskFull(path="here")

    with monkeypatch.context() as patch:
        patch.setattr(store, "append", full)
        for commit in (True, False):
            with pytest.raises(DiskFull):
                driver.end(half, commit=commit)
        driver.clock.advance(73 * HOUR_MS)
        driver.run(driver.broker.checks.tend())
    driver.end(half, commit=True)
    assert [message.body for message in driver.pop()] == [b"a"]


def test_transactions_of_a_deleted_topic_are_rolled_back(driver: EngineDriver) -> None:
    half = driver.half("a")
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    driver.make()
    with pytest.raises(AlreadySettled, match="rolled back"):
        driver.end(half, commit=True)
    assert driver.pop() == []


def test_a_topic_that_is_gone_leaves_the_transaction_open(driver: EngineDriver) -> None:
    """A crash came between the deletion and the end of its transactions."""
    half = driver.half("a")
    del driver.broker.state.catalog_state.topics[TOPIC]
    with pytest.raises(TopicNotFound):
        driver.end(half, commit=True)
    driver.end(half, commit=False)


def test_what_is_given_up_can_be_found(driver: EngineDriver) -> None:
    driver.half("a")
    for _ in range(2):
        driver.advance(30_000)
        assert len(driver.poll_checks()) == 1
    driver.advance(30_000)
    (lost,) = records(driver, GIVEN_UP_TOPIC)
    named = names.decode(lost.properties)
    assert (lost.body, named["REAL_TOPIC"]) == (b"a", TOPIC)
    assert named["TRANSACTION_CHECK_TIMES"] == "2"


def test_what_nobody_could_be_asked_about_is_given_up_after_three_days(
    driver: EngineDriver,
) -> None:
    half = driver.half("a")
    driver.advance(72 * HOUR_MS - 1)
    assert len(driver.broker.state.halves) == 1
    driver.advance(1)
    with pytest.raises(AlreadySettled, match="given up"):
        driver.end(half, commit=True)


def test_one_that_holds_an_old_file_is_written_again(driver: EngineDriver) -> None:
    """Its id stays good, over a restart too; retention may have the old file."""
    half = driver.half("a")
    driver.advance(30_000)
    assert len(driver.poll_checks()) == 1
    assert driver.broker.transactions.needed_from() == half[1]
    driver.advance(HOUR_MS)
    assert driver.broker.transactions.needed_from() == half[1], "it lies in the newest file"
    for _ in range(9):
        driver.send("x" * 500)
    driver.advance(1)
    moved_to = driver.broker.transactions.needed_from()
    assert moved_to is not None
    assert moved_to > half[1]
    driver.restart()
    driver.crash(random.Random(1))
    assert driver.broker.transactions.needed_from() == moved_to
    (asked,) = driver.poll_checks()
    assert (asked.half_offset, asked.log_offset, asked.checks) == (*half, 2)
    driver.end(half, commit=True)
    assert b"a" in [message.body for message in driver.pop()]
    assert driver.broker.transactions.needed_from() is None


def test_positions_are_kept_where_rocketmq_keeps_them(driver: EngineDriver) -> None:
    a, b, c = (driver.half(name) for name in "abc")
    driver.end(a, commit=True)
    driver.end(c, commit=False)
    driver.run(driver.broker.offsets.write())
    text = (driver.data_dir / "config" / "consumerOffset.json").read_text()
    assert f'"{HALF_TOPIC}@{HALF_GROUP}": {{0:1}}' in text
    assert f'"{HALF_OP_TOPIC}@{HALF_GROUP}": {{0:0}}' in text
    driver.end(b, commit=False)
    driver.run(driver.broker.offsets.write())
    text = (driver.data_dir / "config" / "consumerOffset.json").read_text()
    assert f'"{HALF_TOPIC}@{HALF_GROUP}": {{0:3}}' in text
    assert f'"{HALF_OP_TOPIC}@{HALF_GROUP}": {{0:3}}' in text


def test_what_rocketmq_left_open_goes_on(driver: EngineDriver) -> None:
    """Its op records name several half messages; a put-back is settled by that of the first."""
    real = {"REAL_TOPIC": TOPIC, "REAL_QID": "1", names.UNIQ_KEY: "id"}
    for i in range(3):
        append(driver, HALF_TOPIC, b"%d" % i, real)
    again = {**real, "TRAN_PREPARED_QUEUE_OFFSET": "1"}
    append(driver, HALF_TOPIC, b"1", again)
    append(driver, HALF_OP_TOPIC, b"0,1,", {names.TAGS: "d"})
    driver.crash(random.Random(1))
    driver.advance(10_000)
    (open_one,) = driver.poll_checks()
    assert open_one.half_offset == 2
    driver.end((open_one.half_offset, open_one.log_offset), commit=True)
    assert [message.body for message in driver.pop()] == [b"2"]


def test_an_id_of_another_log_is_refused(driver: EngineDriver) -> None:
    offset, log_offset = driver.half("a")
    for place in ((offset, log_offset + 1), (offset + 1, log_offset)):
        with pytest.raises(InvalidTransactionId):
            driver.end(place, commit=True)


def test_a_large_answer_is_cut(driver: EngineDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("popmq_broker.engine.transactions.transaction_checks.BYTES_MAX", 100)
    for name in "ab":
        driver.half(name)
    driver.advance(6_000)
    assert [len(driver.poll_checks()) for _ in range(3)] == [1, 1, 0]


def test_a_clock_that_is_set_back_holds_up_nothing(driver: EngineDriver) -> None:
    driver.half("a")
    driver.advance(30_000)
    assert len(driver.poll_checks()) == 1
    driver.clock.set_back(24 * HOUR_MS)
    driver.advance(0)
    assert driver.poll_checks() == []
    driver.advance(30_000)
    assert len(driver.poll_checks()) == 1


def test_a_damaged_half_message_holds_up_no_other(driver: EngineDriver) -> None:
    (_, log_offset), good = driver.half("damaged"), driver.half("good")
    for _ in range(5):
        driver.send("x" * 1_000)  # a start reads the newest file
    driver.run(driver.broker.state.runtime.store.checkpoint())
    with open(driver.data_dir / "commitlog" / f"{0:020}", "r+b") as file:
        file.seek(log_offset + 100)
        file.write(b"???")
    driver.advance(6_000)
    assert [(one.half_offset, one.log_offset) for one in driver.poll_checks()] == [good]
    for i in range(3):
        if i == 1:
            driver.crash(random.Random(1))
        driver.advance(30_000)
        driver.poll_checks()
    driver.advance(30_000)
    listed = driver.call(list_transactions=link.ListTransactions(count_max=9)).list_transactions
    assert listed.count == 0
    assert [record.body for record in records(driver, GIVEN_UP_TOPIC)] == [b"good"]


def test_metrics_tell_what_is_open_and_how_the_others_ended(driver: EngineDriver) -> None:
    a, b, _ = (driver.half(name) for name in "abc")
    driver.end(a, commit=True)
    driver.end(b, commit=False)
    driver.advance(6_000)
    driver.poll_checks()
    page = generate_latest(registry(driver.broker)).decode()
    for line in (
        'popmq_half_messages{topic="t"} 1.0',
        'popmq_transactions_total{outcome="committed",topic="t"} 1.0',
        'popmq_transactions_total{outcome="rolled back",topic="t"} 1.0',
        'popmq_transaction_checks_total{topic="t"} 1.0',
        'popmq_messages_in_total{topic="t"} 1.0',
    ):
        assert line in page


def test_properties_of_the_half_message_are_not_the_users(driver: EngineDriver) -> None:
    assert {names.HALF_ORIGIN, names.SETTLED, names.CHECK_COUNT} <= names.RESERVED
    assert len(names.HALF_ORIGIN + names.CHECK_COUNT) + 80 < transaction.OWN_BYTES_MAX
