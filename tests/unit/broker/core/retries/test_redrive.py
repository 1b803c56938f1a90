"""Dead letters as values: what they tell, what they become, which are marked."""

import pytest

from popmq_broker.core.leases.nack import REASON_CHARS_MAX, clean_reason
from popmq_broker.core.retries import redrive
from popmq_broker.core.retries.redrive import Selection
from popmq_broker.core.retries.retry import (
    DeadLetterCause,
    dead_letter,
    is_first_of_pair,
    retry_or_dead_letter,
)
from popmq_broker.core.retries.send_back import ConsumerFailure, decide
from popmq_common.errors import Corrupt
from popmq_common.records import hosts, properties
from popmq_common.records.record import Record
from popmq_common.units import LogOffset, QueueOffset

USERS = {
    "UNIQ_KEY": "id-1",
    "TAGS": "red",
    "KEYS": "k1 k2",
    "__SHARDINGKEY": "anna",
    "__BORNHOST": "1.2.3.4",
    "TRACE_CONTEXT": "00-1",
    "colour": "blue",
}


def record(**named: str) -> Record:
    return Record(
        topic="t",
        queue_id=3,
        queue_offset=QueueOffset(41),
        log_offset=LogOffset(0),
        body=b"body",
        properties=properties.encode(named),
        sys_flag=1,
        flag=17,
        born_timestamp_ms=7,
        born_host=hosts.LOCAL,
        store_timestamp_ms=9,
        store_host=hosts.LOCAL,
        reconsume_times=2,
    )


def given_up(reason: str = "bad schema") -> Record:
    sent = record(**USERS)
    cause = DeadLetterCause.REJECTED
    copy = dead_letter(sent, group="g", topic="t", pop_time_ms=5, cause=cause, reason=reason)
    return sent._replace(topic=copy.topic, properties=copy.properties, reconsume_times=0)


def test_a_dead_letter_tells_where_it_comes_from_and_why() -> None:
    letter = redrive.read(given_up())
    assert (letter.topic, letter.message_id, letter.attempts) == ("t", "id-1", 3)
    assert (letter.reason, letter.queue_id) == ("bad schema", 3)


def test_the_second_life_has_what_the_user_gave_and_nothing_else() -> None:
    text = redrive.second_life(redrive.read(given_up()), "g", to_topic=True)
    assert properties.decode(text) == {**USERS, "__REDRIVE_OF": "%DLQ%g@41"}
    again = record()._replace(properties=text)
    assert is_first_of_pair(again)
    copy = retry_or_dead_letter(again, group="g", topic="t", pop_time_ms=5, max_attempts=9)
    assert "__REDRIVE_OF" not in properties.decode(copy.properties)


def test_where_a_group_alone_gets_it_from() -> None:
    letter = redrive.read(given_up())
    assert redrive.retries_of(letter, "g", fifo=False) == "%RETRY%g_t"
    assert redrive.retries_of(letter, "g", fifo=True) is None
    kept = properties.decode(redrive.second_life(letter, "g", to_topic=False))
    assert kept == {**USERS, "__REDRIVE_OF": "%DLQ%g@41", "__ORIGIN_QUEUE_ID": "3"}


@pytest.mark.parametrize("in_place", [False, True])
def test_what_was_sent_back_comes_again_as_what_was_sent_back(in_place: bool) -> None:
    failure = ConsumerFailure(level=-1, attempts=3 if in_place else 0)
    back = decide(record(**USERS), failure, "g", max_attempts=16, delays_ms=[1_000])
    letter = redrive.read(record()._replace(topic=back.topic, properties=back.properties))
    assert redrive.retries_of(letter, "g", fifo=False) == (None if in_place else "%RETRY%g")
    kept = properties.decode(redrive.second_life(letter, "g", to_topic=False))
    assert kept[properties.RETRY_TOPIC] == "t"
    assert kept[properties.ORIGIN_MESSAGE_ID]
    again = properties.decode(redrive.second_life(letter, "g", to_topic=True))
    gone = {properties.RETRY_TOPIC, properties.ORIGIN_MESSAGE_ID, properties.RETRIED_IN_PLACE}
    assert not gone & again.keys()


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Selection(), True),
        (Selection(reason="schema"), True),
        (Selection(reason="customer"), False),
        (Selection(topic="t", message_id="id-1"), True),
        (Selection(topic="u"), False),
        (Selection(message_id="id-2"), False),
    ],
)
def test_a_selection_needs_all_of_its_fields(wanted: Selection, found: bool) -> None:
    assert redrive.read(given_up()).is_in(wanted) is found


def test_what_somebody_sent_to_the_dead_letters_by_himself_is_read_too() -> None:
    letter = redrive.read(record(DLQ_ATTEMPTS="many"))
    assert (letter.topic, letter.attempts, letter.queue_id) == ("", 0, -1)


def test_a_mark_that_cannot_be_read_names_its_place() -> None:
    assert redrive.decode_mark(redrive.encode_mark(41, "t"), where="x") == 41
    with pytest.raises(Corrupt, match="marks, 7"):
        redrive.decode_mark(b"{}", where="marks, 7")


def test_a_reason_is_one_line_of_limited_length() -> None:
    assert clean_reason("Traceback:\n  line\x01two\x02 ") == "Traceback:   line two"
    assert len(clean_reason("é" * 5_000)) == REASON_CHARS_MAX


def test_a_user_property_that_ends_like_ours_makes_no_pair() -> None:
    """The last message before a crash is not cut off because of a name its sender chose."""
    assert not is_first_of_pair(record(X1ST_POP_TIME="1", MY__REDRIVE_OF="2"))
    assert is_first_of_pair(record(**{"1ST_POP_TIME": "1"}))
