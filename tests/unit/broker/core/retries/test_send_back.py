"""What becomes of a message that a consumer which pulls has failed on:
core/retries/send_back.py."""

import pytest

from popmq_broker.core.retries.retry import DLQ_ATTEMPTS, is_first_of_pair
from popmq_broker.core.retries.send_back import Back, ConsumerFailure, decide
from popmq_broker.core.timers import timer_levels
from popmq_common.records import hosts
from popmq_common.records import properties as names
from popmq_common.records.record import Record, SysFlag
from popmq_common.units import LogOffset, QueueOffset

DELAYS_MS = timer_levels.parse("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
SENT = {"UNIQ_KEY": "id-1", "TAGS": "new", "KEYS": "k", "colour": "blue"}


def record(failures: int = 0, **named: str) -> Record:
    return Record(
        topic="orders",
        queue_id=3,
        queue_offset=QueueOffset(7),
        log_offset=LogOffset(4_096),
        body=b"body",
        properties=names.encode({**SENT, **named}),
        sys_flag=0,
        flag=0,
        born_timestamp_ms=1,
        born_host=hosts.LOCAL,
        store_timestamp_ms=2,
        store_host=hosts.encode("10.0.0.1", 10911),
        reconsume_times=failures,
        prepared_offset=0,
    )


def back(of: Record, failure: ConsumerFailure | None = None, max_attempts: int = 16) -> Back:
    return decide(
        of, failure or ConsumerFailure(), "billing", max_attempts=max_attempts, delays_ms=DELAYS_MS
    )


def of(copy: Back) -> dict[str, str]:
    return names.decode(copy.properties)


def test_each_failure_waits_a_level_longer_and_the_last_one_is_dead() -> None:
    found = [back(record(failures)) for failures in range(16)]
    assert [one.level for one in found] == [*range(3, 18), 0]
    assert [one.topic for one in found] == ["%RETRY%billing"] * 15 + ["%DLQ%billing"]
    assert [one.reconsume_times for one in found] == [*range(1, 16), 0]
    assert of(found[-1])[DLQ_ATTEMPTS] == "16"


def test_beyond_the_last_level_it_is_the_last_one() -> None:
    assert back(record(40), max_attempts=100).level == 18
    assert back(record(), ConsumerFailure(level=99)).level == 18
    assert back(record(), ConsumerFailure(delay_ms=10**9)).level == 18


def test_without_levels_it_comes_at_once() -> None:
    copy = decide(record(), ConsumerFailure(), "billing", max_attempts=16, delays_ms=())
    assert (copy.level, copy.dead, "DELAY" in of(copy)) == (0, False, False)


@pytest.mark.parametrize(("delay_ms", "level"), [(0, 1), (1_000, 1), (1_001, 2), (61_000, 6)])
def test_a_delay_is_the_first_level_that_is_as_long(delay_ms: int, level: int) -> None:
    assert back(record(5), ConsumerFailure(delay_ms=delay_ms)).level == level


def test_a_copy_says_where_it_is_from_and_a_copy_of_it_says_the_same() -> None:
    first = of(back(record()))
    assert first["RETRY_TOPIC"] == "orders"
    assert first["ORIGIN_MESSAGE_ID"] == "0A00000100002A9F0000000000001000"
    assert first["WAIT"] == "false"
    assert first["DELAY"] == "3"
    assert SENT.items() <= first.items()
    again = of(
        back(record(1, **first)._replace(topic="%RETRY%billing", log_offset=LogOffset(9_999)))
    )
    assert again == {**first, "DELAY": "4"}


def test_reasons_are_kept_for_the_dead_letter() -> None:
    retried = of(back(record(), ConsumerFailure(reason="no connection")))
    dead = of(back(record(15, **retried)))
    assert dead["DLQ_REASON"] == "no connection"
    assert (dead["DLQ_ORIGIN_TOPIC"], dead["DLQ_ORIGIN_MESSAGE_ID"]) == ("orders", "id-1")
    assert not {names.RETRY_REASON, "DELAY"} & dead.keys()
    assert of(back(record(15, **retried), ConsumerFailure(reason="late")))["DLQ_REASON"] == "late"
    assert of(back(record(15)))["DLQ_REASON"] == "attempts used up"
    rejected = of(back(record(4, **retried), ConsumerFailure(level=-1)))
    assert rejected["DLQ_REASON"] == "rejected by the consumer"
    assert rejected[DLQ_ATTEMPTS] == "5"
    assert of(back(record(), ConsumerFailure(level=-1, attempts=9)))[DLQ_ATTEMPTS] == "9"


def test_what_does_not_count_neither_counts_nor_leaves_a_reason() -> None:
    copy = back(record(15), ConsumerFailure(counted=False, reason="not now"))
    assert (copy.level, copy.reconsume_times) == (18, 15)
    assert names.RETRY_REASON not in of(copy)
    assert back(record(15), ConsumerFailure(level=-1, counted=False)).dead


def test_a_copy_is_never_taken_for_the_half_of_a_pair_or_the_end_of_a_wait() -> None:
    past = {
        names.FIRST_POP_TIME: "5",
        names.REDRIVE_OF: "%DLQ%billing@4",
        names.TIMER_OF: "12",
        names.DELIVER_MS: "99",
        names.TIMER_OUT_MS: "99",
        "POP_CK": "x",
    }
    for copy in (back(record(0, **past)), back(record(99, **past))):
        assert not past.keys() & of(copy).keys()
        stored = record()._replace(topic=copy.topic, properties=copy.properties)
        assert not is_first_of_pair(stored)


def test_the_flags_of_a_transaction_are_what_would_make_it_one() -> None:
    """So engine/retries/send_back.py takes them away."""
    committed = record()._replace(sys_flag=SysFlag.COMMIT)
    assert is_first_of_pair(committed)
    assert not is_first_of_pair(committed._replace(sys_flag=0))
