"""Whatever is put arrives, once and in order, however it is batched and however the bytes come."""

import asyncio
from itertools import pairwise

import pytest
from harness.wire import connected
from hypothesis import given
from hypothesis import strategies as st

from popmq_common.link import frames
from popmq_common.link.frames import encode_entry
from popmq_internal.v1 import link_pb2 as link

BATCH_BYTES = 1_000  # instead of 1 MiB, so that bodies need not be large


bodies = st.one_of(
    st.binary(max_size=300),
    st.sampled_from([bytes(100), bytes(127), bytes(BATCH_BYTES), bytes(16_384)]),
)
calls = st.builds(
    lambda number, body: link.Call(
        id=number, send=link.Send(topic="t", records=[link.OutgoingRecord(body=body)])
    ),
    st.integers(0, 2**64 - 1),
    bodies,
)
replies = st.builds(
    lambda number, body: link.Reply(
        id=number, pop=link.PopReply(messages=[link.PoppedMessage(record=body)])
    ),
    st.integers(0, 2**64 - 1),
    bodies,
)


@given(st.one_of(calls, replies))
def test_an_entry_is_a_frame_of_its_own(message: link.Call | link.Reply) -> None:
    frame = link.Frame()
    if isinstance(message, link.Call):
        frame.calls.append(message)
    else:
        frame.replies.append(message)
    size, pieces = encode_entry(message)
    assert b"".join(pieces) == frame.SerializeToString()
    assert size == frame.ByteSize()


async def transmit(
    messages: list[link.Call | link.Reply], pauses: list[bool], cuts: list[int]
) -> list[link.Frame]:
    """Put with pauses in between, which let frames go out; feed the bytes cut at any place."""
    out, wire = connected()
    for i, message in enumerate(messages):
        out.put(message)
        if i < len(pauses) and pauses[i]:
            await asyncio.sleep(0)
    await asyncio.wait_for(out.flush(), 10)
    found: list[link.Frame] = []
    into, _ = connected()
    into.begin(found.append)
    places = [0, *sorted(cut % (len(wire.data) + 1) for cut in cuts), len(wire.data)]
    for start, end in pairwise(places):
        into.data_received(bytes(wire.data[start:end]))
    into.connection_lost(None)
    await into.ended
    return found


@given(
    st.lists(st.one_of(calls, replies), max_size=30),
    st.lists(st.booleans(), max_size=30),
    st.lists(st.integers(0, 2**24), max_size=8),
)
def test_everything_arrives_in_order(
    messages: list[link.Call | link.Reply], pauses: list[bool], cuts: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "BATCH_BYTES", BATCH_BYTES)
        found = asyncio.run(transmit(messages, pauses, cuts))
    assert [call for frame in found for call in frame.calls] == [
        message for message in messages if isinstance(message, link.Call)
    ]
    assert [reply for frame in found for reply in frame.replies] == [
        message for message in messages if isinstance(message, link.Reply)
    ]
    for frame in found:
        sizes = [len(encode_entry(call)) for call in frame.calls]
        sizes += [len(encode_entry(reply)) for reply in frame.replies]
        # a frame is closed by the message that takes it past the bound
        assert sum(sizes) - max(sizes) < BATCH_BYTES
