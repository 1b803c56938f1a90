"""Calls to a broker and what its replies hold; the bodies are about one topic and group.

`handle` enters the engine where the link does: sends come together, everything else by itself.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from harness.names import GROUP, TOPIC

from popmq_broker.engine.broker import Broker
from popmq_common.link.frames import encode_entry
from popmq_common.link.sends import SendDone
from popmq_common.link.wire import error_of
from popmq_common.records import hosts, properties
from popmq_common.records.receipt import Receipt, of_run
from popmq_common.records.receipt import decode as decode_receipt
from popmq_common.records.record import Record, own_offset
from popmq_common.records.record import decode as decode_record
from popmq_internal.v1 import link_pb2 as link


class Popped(NamedTuple):
    """A message as a pop hands it out."""

    handle: str
    receipt: Receipt
    record: Record
    delivery_attempt: int

    @property
    def body(self) -> bytes:
        return self.record.body

    @property
    def properties(self) -> bytes:
        return self.record.properties


def popped(message: link.PoppedMessage) -> Popped:
    receipt = decode_receipt(message.handle)
    return _popped(message.handle, message.record, message.delivery_attempt, receipt.log_offset)


def popped_of(run: link.PoppedRun) -> list[Popped]:
    """Messages of one run, each with the handle that a client makes for it."""
    attempts = run.delivery_attempts or [0] * len(run.records)
    return [
        _popped(of_run(run.handle, offset), record, attempt, own_offset(record))
        for record, offset, attempt in zip(run.records, run.queue_offsets, attempts, strict=True)
    ]


def _popped(handle: str, data: bytes, attempt: int, log_offset: int) -> Popped:
    record = decode_record(data, where="pop", log_offset=log_offset)
    assert record.queue_offset == decode_receipt(handle).queue_offset
    return Popped(handle, decode_receipt(handle), record, attempt or record.reconsume_times + 1)


async def handle(broker: Broker, call: link.Call) -> link.Reply:
    """Raises `PopMQError`."""
    if call.WhichOneof("body") != "send":
        return await broker.handle(call)
    answered: asyncio.Future[link.Reply | SendDone] = asyncio.get_running_loop().create_future()

    def answer(reply: link.Reply | SendDone) -> None:
        if not answered.done():  # whoever waits may have given up
            answered.set_result(reply)

    broker.handle_sends([call], answer)
    reply = received(await answered)
    if reply.HasField("failure"):
        raise error_of(reply.failure)
    return reply


def received(reply: link.Reply | SendDone) -> link.Reply:
    """As it comes out of a frame."""
    _, pieces = encode_entry(reply)
    (found,) = link.Frame.FromString(b"".join(pieces)).replies
    return found


def send_body(
    body: str,
    tag: str | None = None,
    message_group: str = "",
    queue_id: int = -1,
    more: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """`more`: properties."""
    named = {properties.UNIQ_KEY: f"id-{body}", "colour": "blue", **(more or {})}
    if tag:
        named[properties.TAGS] = tag
    if message_group:
        named[properties.SHARDING_KEY] = message_group
    record = link.OutgoingRecord(
        body=body.encode(),
        properties=properties.encode(named),
        born_timestamp_ms=7,
        born_host=hosts.LOCAL,
    )
    return {"send": link.Send(topic=TOPIC, queue_id=queue_id, records=[record])}


def later_body(body: str, due_ms: int, tag: str | None = None) -> dict[str, Any]:
    request = send_body(body, tag, queue_id=0, more={properties.DELIVER_MS: str(due_ms)})
    request["send"].kind = link.SEND_KIND_DELAY
    return request


def half_body(body: str, immunity_s: int = 0) -> dict[str, Any]:
    more = {properties.IMMUNITY_S: str(immunity_s)} if immunity_s else None
    request = send_body(body, more=more)
    request["send"].kind = link.SEND_KIND_HALF
    return request


def ack_body(handles: Sequence[str]) -> dict[str, Any]:
    return {"ack": link.Ack(group=GROUP, topic=TOPIC, handles=handles)}


def change_body(handle: str, invisible_ms: int) -> dict[str, Any]:
    request = link.ChangeInvisible(
        group=GROUP, topic=TOPIC, handle=handle, invisible_ms=invisible_ms
    )
    return {"change_invisible": request}


def recall_body(body: str, due_ms: int) -> dict[str, Any]:
    return {"recall": link.Recall(topic=TOPIC, message_id=f"id-{body}", due_ms=due_ms)}


def pop_body(
    count: int,
    invisible_ms: int,
    expression: str = "",
    attempt_id: str = "",
    sql: str = "",
    renewed_by: str = "",
) -> dict[str, Any]:
    kind = link.FILTER_KIND_TAG if expression else link.FILTER_KIND_ALL
    return {
        "pop": link.Pop(
            group=GROUP,
            topic=TOPIC,
            batch_size=count,
            invisible_ms=invisible_ms,
            filter_kind=link.FILTER_KIND_SQL if sql else kind,
            filter_expression=sql or expression,
            attempt_id=attempt_id,
            client_id=renewed_by,
            auto_renew=bool(renewed_by),
        )
    }


def end_body(half: tuple[int, int], *, commit: bool) -> dict[str, Any]:
    offset, log_offset = half
    request = link.EndTransaction(
        topic=TOPIC, half_offset=offset, log_offset=log_offset, commit=commit
    )
    return {"end_transaction": request}


def nack_body(
    handles: Sequence[str], kind: int, delay_ms: int = -1, reason: str = ""
) -> dict[str, Any]:
    return {
        "nack": link.Nack(
            group=GROUP,
            topic=TOPIC,
            handles=handles,
            kind=link.NackKind.ValueType(kind),
            delay_ms=delay_ms,
            reason=reason,
        )
    }
