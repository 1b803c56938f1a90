"""Checkpoints and acks: JSON as RocketMQ writes and reads it."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq_broker.core.leases.checkpoint import (
    ACK_TAG,
    BATCH_ACK_TAG,
    AckRecord,
    Checkpoint,
    ack_key,
    checkpoint_key,
    decode_ack,
    decode_checkpoint,
    encode_ack,
    encode_checkpoint,
)
from popmq_common.errors import Corrupt
from popmq_common.units import QueueOffset

CHECKPOINT = Checkpoint(
    topic="orders",
    group="billing",
    queue_id=2,
    start_offset=QueueOffset(100),
    offsets=(100, 102, 103),
    pop_time_ms=1_700_000_000_000,
    invisible_ms=30_000,
    broker="broker-a",
)
ACK = AckRecord(
    topic="orders",
    group="billing",
    queue_id=2,
    start_offset=QueueOffset(100),
    offsets=(102,),
    pop_time_ms=1_700_000_000_000,
    broker="broker-a",
)
offsets = st.lists(st.integers(0, 2**40), min_size=1, max_size=32, unique=True).map(
    lambda found: tuple(sorted(found))
)
name = st.text(min_size=1, max_size=20)
checkpoints = st.builds(
    Checkpoint,
    topic=name,
    group=name,
    queue_id=st.integers(0, 1023),
    start_offset=st.integers(0, 2**40).map(QueueOffset),
    offsets=offsets,
    pop_time_ms=st.integers(0, 2**50),
    invisible_ms=st.integers(0, 2**40),
    broker=name,
    generation=st.integers(1, 9),
    attempts=st.just((1, 2)),
    handed_out=st.sampled_from([(1, 2), (4, 2)]),
)
acks = st.builds(
    AckRecord,
    topic=name,
    group=name,
    queue_id=st.integers(0, 1023),
    start_offset=st.integers(0, 2**40).map(QueueOffset),
    offsets=offsets,
    pop_time_ms=st.integers(0, 2**50),
    broker=name,
    generation=st.integers(1, 9),
    expired=st.booleans(),
)


def test_a_checkpoint_is_rocketmqs_json() -> None:
    assert json.loads(encode_checkpoint(CHECKPOINT)) == {
        "bm": 0,
        "bn": "broker-a",
        "c": "billing",
        "d": [0, 2, 3],
        "it": 30_000,
        "n": 3,
        "pt": 1_700_000_000_000,
        "q": 2,
        "ro": 0,
        "so": 100,
        "t": "orders",
    }
    assert CHECKPOINT.due_ms == 1_700_000_030_000
    assert CHECKPOINT.next_offset == 104
    assert checkpoint_key(CHECKPOINT) == "orders@2@100@billing@1700000000000@broker-a@ck"


def test_a_single_ack_and_a_batch() -> None:
    tag, body = encode_ack(ACK)
    assert tag == ACK_TAG
    fields = {"bn": "broker-a", "c": "billing", "pt": 1_700_000_000_000, "q": 2, "so": 100}
    fields["t"] = "orders"
    assert json.loads(body) == {**fields, "ao": 102}
    assert ack_key(ACK) == "orders@2@102@billing@1700000000000@broker-a@ack"
    several = replace(ACK, offsets=(102, 103))
    tag, body = encode_ack(several)
    assert tag == BATCH_ACK_TAG
    assert json.loads(body) == {**fields, "ao": -1, "aol": [102, 103]}
    assert ack_key(several) == "orders@2@[102, 103]@billing@1700000000000@bAck"


@given(checkpoints)
def test_checkpoint_round_trip(checkpoint: Checkpoint) -> None:
    assert decode_checkpoint(encode_checkpoint(checkpoint), where="w") == checkpoint


@given(acks)
def test_ack_round_trip(ack: AckRecord) -> None:
    assert decode_ack(encode_ack(ack)[1], where="w") == ack


def test_a_checkpoint_without_offsets_moves_the_position() -> None:
    move = replace(CHECKPOINT, offsets=())
    assert decode_checkpoint(encode_checkpoint(move), where="w") == move
    assert move.next_offset == 100


def test_rocketmqs_own_texts_are_read() -> None:
    """Without deltas the offsets are consecutive; old acks have long names."""
    fields = json.loads(encode_checkpoint(CHECKPOINT))
    del fields["d"], fields["bn"]
    read = decode_checkpoint(json.dumps(fields).encode(), where="w")
    assert read.offsets == (100, 101, 102)
    assert read.broker == ""
    text = {
        "ackOffset": 7,
        "startOffset": 5,
        "consumerGroup": "g",
        "topic": "t",
        "queueId": 1,
        "popTime": 9,
        "brokerName": "b",
    }
    ack = decode_ack(json.dumps(text).encode(), where="w")
    assert (ack.offsets, ack.start_offset, ack.group, ack.broker) == ((7,), 5, "g", "b")
    del text["ackOffset"]
    text["ackOffsetList"] = [7, 8]
    assert decode_ack(json.dumps(text).encode(), where="w").offsets == (7, 8)


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"{}", b'{"so":"x","n":1}', b'{"so":null}'])
def test_what_is_no_checkpoint_is_told_with_its_place(body: bytes) -> None:
    with pytest.raises(Corrupt, match="revive 3"):
        decode_checkpoint(body, where="revive 3")
    with pytest.raises(Corrupt, match="revive 3"):
        decode_ack(body, where="revive 3")
