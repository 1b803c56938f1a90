"""The call and the response written by hand are what the protobuf library would have built."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apache.rocketmq.v2 import definition_pb2 as v2
from apache.rocketmq.v2 import service_pb2 as service
from popmq_common.errors import MessagesCorrupted
from popmq_common.link.sends import SendCall
from popmq_common.records import hosts, properties
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.messages import outgoing
from popmq_proxy.core.messages.outgoing import Result
from popmq_proxy.core.messages.status import OK

PEER = "192.0.2.7"
WORD = st.text("abcäöü0123456789-_", min_size=1, max_size=200)
SIZES = st.sampled_from([0, 1, 127, 128, 16_383, 16_384, 70_000])
BAD = v2.Status(code=v2.ILLEGAL_TOPIC, message="a topic's name may not be empty")


@st.composite
def messages(draw: st.DrawFn) -> tuple[v2.Message, dict[str, str]]:
    """(message, its properties in the log)"""
    message = v2.Message(body=bytes(draw(SIZES)))
    message.user_properties.update(draw(st.dictionaries(WORD.map("u{}".format), WORD)))
    system = message.system_properties
    system.message_id = draw(WORD)
    system.born_timestamp.FromMilliseconds(draw(st.integers(0, outgoing.LATEST_MS)))
    stored = {**message.user_properties, properties.UNIQ_KEY: system.message_id}
    if draw(st.booleans()):
        system.tag = stored[properties.TAGS] = draw(WORD)
    if draw(st.booleans()):
        system.keys.extend(draw(st.lists(WORD, min_size=1, max_size=3)))
        stored[properties.KEYS] = " ".join(system.keys)
    if draw(st.booleans()):
        system.message_group = stored[properties.SHARDING_KEY] = draw(WORD)
    if draw(st.booleans()):
        system.trace_context = stored[properties.TRACE_CONTEXT] = draw(WORD)
    if draw(st.booleans()):
        system.born_host = draw(WORD)
    if draw(st.booleans()):
        system.body_encoding = v2.GZIP
    stored[properties.BORN_HOST] = system.born_host or PEER
    return message, stored


def built(message: v2.Message, stored: dict[str, str]) -> link.OutgoingRecord:
    system = message.system_properties
    return link.OutgoingRecord(
        body=message.body,
        properties=properties.encode(stored),
        sys_flag=int(system.body_encoding == v2.GZIP),
        born_timestamp_ms=system.born_timestamp.ToMilliseconds(),
        born_host=hosts.LOCAL,
    )


def same_properties(records: list[link.OutgoingRecord]) -> list[link.OutgoingRecord]:
    """Their order within a record carries no meaning."""
    for record in records:
        found = properties.decode(record.properties)
        record.properties = properties.encode(dict(sorted(found.items())))
    return records


@given(st.lists(messages(), min_size=1, max_size=4), WORD, st.integers(0, 300))
def test_a_call_holds_what_was_sent(
    sent: list[tuple[v2.Message, dict[str, str]]], topic: str, queue_id: int
) -> None:
    records = [outgoing.record(message, PEER) for message, _ in sent]
    call = encoded(SendCall(topic, queue_id, records, link.SEND_KIND_DELAY), 7)
    assert (call.id, call.send.topic, call.send.queue_id) == (7, topic, queue_id)
    assert call.send.kind == link.SEND_KIND_DELAY
    expected = [built(message, stored) for message, stored in sent]
    assert same_properties(list(call.send.records)) == same_properties(expected)


def encoded(call: SendCall, call_id: int) -> link.Call:
    """As it comes out of a frame."""
    call.id = call_id
    size, pieces = call.entry()
    data = b"".join(pieces)
    assert len(data) == size
    (found,) = link.Frame.FromString(data).calls
    return found


@given(st.lists(st.tuples(WORD, st.integers(0, 2**62), st.sampled_from([OK, BAD])), min_size=1))
def test_a_response_holds_every_result(results: list[tuple[str, int, v2.Status]]) -> None:
    told: list[Result] = [(offset, status, b"") for _, offset, status in results]
    entries = [
        service.SendResultEntry(message_id=message_id, offset=offset, status=status)
        for message_id, offset, status in results
    ]
    status, data = outgoing.response([message_id.encode() for message_id, _, _ in results], told)
    response = service.SendMessageResponse.FromString(data)
    assert response.status == status
    assert list(response.entries) == entries
    statuses = {status.code for _, _, status in results}
    assert response.status.code == (v2.MULTIPLE_RESULTS if len(statuses) > 1 else statuses.pop())


@pytest.mark.parametrize("seconds", [-1, 253_402_300_800])
def test_a_time_that_is_none_is_refused(seconds: int) -> None:
    message = v2.Message()
    message.system_properties.born_timestamp.seconds = seconds
    with pytest.raises(MessagesCorrupted, match="born timestamp"):
        outgoing.record(message, PEER)
