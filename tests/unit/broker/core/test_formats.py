"""Queue entries, checkpoints and acks, offsets and tables: RocketMQ's bytes and names, and back."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_broker.core.catalog import tables
from popmq_broker.core.groups import offsets
from popmq_broker.core.groups.offsets import OffsetTable, QueueKey
from popmq_broker.core.leases import checkpoint as ck
from popmq_broker.core.store.queue_entry import QueueEntry, decode_all, encode, tags_code
from popmq_common.errors import Corrupt
from popmq_common.units import LogOffset, QueueOffset


@pytest.mark.parametrize(
    ("tag", "code"),
    [("", 0), ("a", 97), ("Aa", 2112), ("BB", 2112), ("中文", 646394), ("🏷", 1773371)],
)
def test_tags_code_is_javas_string_hash(tag: str, code: int) -> None:
    assert tags_code(tag) == code


def test_tags_code_wraps_at_32_bits() -> None:
    assert tags_code("polygenelubricants") == -(2**31)


def test_queue_entry_bytes() -> None:
    entry = QueueEntry(LogOffset(1), 2, -3)
    data = encode(entry)
    assert data.hex() == "0000000000000001" + "00000002" + "fffffffffffffffd"
    assert decode_all(data + bytes(20)) == [entry]


def checkpoint(**changes: object) -> ck.Checkpoint:
    fields: dict[str, object] = {
        "topic": "t",
        "group": "g",
        "queue_id": 1,
        "start_offset": QueueOffset(100),
        "offsets": (100, 102, 131),
        "pop_time_ms": 5,
        "invisible_ms": 60_000,
        "broker": "broker-a",
    }
    return ck.Checkpoint(**{**fields, **changes})  # type: ignore[arg-type]


def test_checkpoint_json_is_rocketmqs() -> None:
    assert json.loads(ck.encode_checkpoint(checkpoint())) == {
        "so": 100,
        "pt": 5,
        "it": 60_000,
        "bm": 0,
        "n": 3,
        "q": 1,
        "t": "t",
        "c": "g",
        "ro": 0,
        "d": [0, 2, 31],
        "bn": "broker-a",
    }
    assert ck.checkpoint_key(checkpoint()) == "t@1@100@g@5@broker-a@ck"


@pytest.mark.parametrize(
    "value", [checkpoint(), checkpoint(offsets=()), checkpoint(generation=3, offsets=(100,))]
)
def test_checkpoint_round_trip(value: ck.Checkpoint) -> None:
    assert ck.decode_checkpoint(ck.encode_checkpoint(value), where="x") == value


@pytest.mark.parametrize(
    ("given_offsets", "tag", "expired"), [((7,), "ack", False), ((7, 9), "bAck", True)]
)
def test_ack_round_trip(given_offsets: tuple[int, ...], tag: str, expired: bool) -> None:
    ack = ck.AckRecord(
        topic="t",
        group="g",
        queue_id=1,
        start_offset=QueueOffset(5),
        offsets=given_offsets,
        pop_time_ms=5,
        broker="b",
        expired=expired,
    )
    found_tag, body = ck.encode_ack(ack)
    assert found_tag == tag
    assert ck.decode_ack(body, where="x") == ack
    assert json.loads(body)["ao"] == (7 if len(given_offsets) == 1 else -1)


def test_rocketmqs_long_names_of_an_ack_are_read() -> None:
    body = (
        b'{"ackOffset":7,"startOffset":5,"consumerGroup":"g","topic":"t","queueId":1,"popTime":5}'
    )
    assert ck.decode_ack(body, where="x").offsets == (7,)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"so":"x"}'])
def test_damaged_records_name_their_place(body: bytes) -> None:
    with pytest.raises(Corrupt, match="place"):
        ck.decode_checkpoint(body, where="place")
    with pytest.raises(Corrupt, match="place"):
        ck.decode_ack(body, where="place")


names = st.text("abcXYZ0-9_%", min_size=1, max_size=8)


@given(
    st.dictionaries(
        st.builds(QueueKey, names, names, st.integers(0, 99)), st.integers(-1, 2**60), max_size=9
    )
)
def test_offset_table_round_trip(found: dict[QueueKey, int]) -> None:
    table = OffsetTable(4711, found, {key: 3 for key in list(found)[:1]})
    text = offsets.encode(table, now_ms=1)
    assert offsets.decode(text, where="x") == table


def test_offsets_as_rocketmq_writes_them() -> None:
    text = '{"dataVersion":{"counter":1},"offsetTable":{"t@g":{0:123,1:5},"%RETRY%g@g":{0:0}}}'
    assert offsets.decode(text, where="x").offsets == {
        QueueKey("g", "t", 0): 123,
        QueueKey("g", "t", 1): 5,
        QueueKey("g", "%RETRY%g", 0): 0,
    }


def test_a_group_of_rocketmqs_own_may_have_the_sign_between_topic_and_group_in_its_name() -> None:
    text = '{"offsetTable":{"Syncer@CID_Syncer@broadcast":{0:4}}}'
    found = offsets.decode(text, where="x")
    assert found.offsets == {QueueKey("CID_Syncer@broadcast", "Syncer", 0): 4}
    assert offsets.decode(offsets.encode(found, now_ms=1), where="x") == found


def test_tables_round_trip() -> None:
    topic = tables.TopicConfig(name="t", read_queues=4, write_queues=4, message_type="FIFO")
    text = tables.encode_topics({"t": topic}, 3, now_ms=1)
    assert tables.decode_topics(text, where="x") == ({"t": topic}, 3)
    group = tables.GroupConfig(name="g", max_attempts=5, consume_from=tables.ConsumeFrom.FIRST)
    text = tables.encode_groups({"g": group}, 4, now_ms=1)
    assert json.loads(text)["subscriptionGroupTable"]["g"]["retryMaxTimes"] == 4
    assert tables.decode_groups(text, where="x") == ({"g": group}, 4)


def test_an_owner_is_an_attribute_of_those_that_have_one() -> None:
    """Its name is a format: pipelines and other readers look for it."""
    topic = tables.TopicConfig(name="t", read_queues=4, write_queues=4, owner="pay@shop")
    group = tables.GroupConfig(name="g", owner="ops")
    texts = (
        tables.encode_topics({"t": topic}, 1, now_ms=1),
        tables.encode_groups({"g": group}, 1, 1),
    )
    rows = [json.loads(texts[0])["topicConfigTable"]["t"]]
    rows.append(json.loads(texts[1])["subscriptionGroupTable"]["g"])
    assert [row["attributes"]["popmq.owner"] for row in rows] == ["pay@shop", "ops"]
    assert tables.decode_topics(texts[0], where="x") == ({"t": topic}, 1)
    assert tables.decode_groups(texts[1], where="x") == ({"g": group}, 1)
    for row in rows:
        del row["attributes"]["popmq.owner"]  # as an earlier version wrote it
    assert tables.topic_of(rows[0]) == replace(topic, owner="")
    assert tables.group_of(rows[1]) == replace(group, owner="")
    assert tables.topic_fields(replace(topic, owner="")) == rows[0]
    assert tables.group_fields(replace(group, owner="")) == rows[1]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"topicConfigTable": 1}'])
def test_damaged_tables_name_the_file(text: str) -> None:
    for decode in (tables.decode_topics, tables.decode_groups, offsets.decode):
        with pytest.raises(Corrupt, match=r"file\.json"):
            decode(text, where="file.json")
