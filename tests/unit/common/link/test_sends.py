"""The link's messages of a send, written by hand, are what protobuf would have written."""

from hypothesis import given
from hypothesis import strategies as st

from popmq_common.link.frames import encode_entry
from popmq_common.link.protowire import varint
from popmq_common.link.sends import OutgoingRecord, SendCall, SendDone
from popmq_internal.v1 import link_pb2 as link

NUMBERS = st.sampled_from([0, 1, 127, 128, 16_383, 16_384, (1 << 31) - 1])
LONG = st.sampled_from([0, 1, 300, 1 << 40, (1 << 63) - 1])
SIZES = st.sampled_from([0, 1, 127, 128, 16_383, 16_384])
HOSTS = st.sampled_from([bytes(8), bytes(20)])
records = st.builds(
    OutgoingRecord, SIZES.map(bytes), SIZES.map(bytes), NUMBERS, NUMBERS, LONG, HOSTS
)


@given(st.text("aä", max_size=200), NUMBERS, st.lists(records, max_size=3), st.integers(0, 2), LONG)
def test_a_call(topic: str, queue: int, sent: list[OutgoingRecord], kind: int, number: int) -> None:
    size, pieces = encode_entry(SendCall(topic, queue, sent, kind, number))
    data = b"".join(pieces)
    assert len(data) == size
    (call,) = link.Frame.FromString(data).calls
    assert (call.id, call.send.topic, call.send.queue_id) == (number, topic, queue)
    assert call.send.kind == kind
    assert [
        (r.body, r.properties, r.sys_flag, r.flag, r.born_timestamp_ms, r.born_host)
        for r in call.send.records
    ] == [tuple(record) for record in sent]


@given(LONG, NUMBERS, LONG, st.lists(LONG, max_size=3), st.lists(LONG, max_size=3))
def test_a_reply(
    number: int, queue_id: int, offset: int, log_offsets: list[int], queue_offsets: list[int]
) -> None:
    done = SendDone(number)
    done.queue_id, done.queue_offset, done.log_offsets = queue_id, offset, log_offsets
    done.queue_offsets = queue_offsets
    _, pieces = encode_entry(done)
    (reply,) = link.Frame.FromString(b"".join(pieces)).replies
    expected = link.SendReply(
        queue_id=queue_id,
        queue_offset=offset,
        log_offsets=log_offsets,
        queue_offsets=queue_offsets,
    )
    assert reply == link.Reply(id=number, send=expected)


@given(st.integers(0, (1 << 64) - 1))
def test_a_number(number: int) -> None:
    assert link.Call.FromString(b"\x08" + varint(number)).id == number
