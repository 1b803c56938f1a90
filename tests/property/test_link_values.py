"""Whatever a call of the link says: it is answered, and the calls beside it are served."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from harness.broker import QUICK_DISK, EngineDriver
from harness.hostile import Messages
from harness.link import read_frame
from hypothesis import given
from hypothesis import strategies as st

from popmq_broker.rpc.link import LinkServer
from popmq_common.errors import all_errors
from popmq_common.link.frames import encode_frame
from popmq_common.process import logs
from popmq_common.records.receipt import Receipt, encode
from popmq_internal.v1 import link_pb2 as link

KINDS = [field.name for field in link.Call.DESCRIPTOR.fields if field.name not in ("id", "cancel")]
RECORD = link.OutgoingRecord(body=b"x", born_host=bytes(8))
DELAYED = [
    b"UNIQ_KEY\x01id\x02TIMER_DELIVER_MS\x01%b\x02" % due
    for due in (b"0", b"1", b"-1", b"x", b"9" * 17, b"9" * 18, b"9" * 19, b"9" * 400, b"9" * 5_000)
]
CONFUSED = [
    b"TIMER_DELIVER_MS\x01%d\x02%b\x01%b\x02" % (4_000_000_000_000, name, value)
    for name in (b"TIMER_OUT_MS", b"REAL_TOPIC", b"REAL_QID", b"TIMER_DEL_UNIQKEY", b"__TIMER_OF")
    for value in (b"", b"x", b"99999999999999999999", b"0", b"-1", b"rmq_sys_REVIVE_LOG_x")
]
HANDLES = [
    encode(
        Receipt(number, number, number, queue, mark, "broker-a", queue, number, number, 1), "g", "t"
    )
    for number in (0, -1, 2**63, 10**40)
    for queue, mark in ((0, 0), (-1, 1), (2**31, 2), (10**20, 0))
]
KNOWN: dict[str, list[Any]] = {
    "handle": HANDLES,
    "handles": HANDLES,
    "topic": ["t", "t", "t", "%RETRY%g", "%DLQ%g", "rmq_sys_wheel_timer"],
    "group": ["g", "g", "g"],
    "name": ["t", "g", "new"],
    "message_type": ["NORMAL", "MIXED"],
    "queue_id": [0, 0, 1],
    "batch_size": [1, 32],
    "invisible_ms": [10_000],
    "poll_ms": [0, 0, 0, 50],
    "born_host": [bytes(8), bytes(20), bytes(8)],
    "properties": [b"", b"TAGS\x01a\x02", b"TAGS\x01\xff\x02", *DELAYED, *CONFUSED],
    "filter_expression": ["*", "a", "a || b", "TRUE"],
    "client_id": ["c"],
}


NEIGHBOUR: dict[str, Any] = {"send": link.Send(topic="neighbour", records=[RECORD])}
HOSTILE = Messages(KNOWN)
POLL_MS_MAX = 20


class Linked:
    """A broker behind its link, and one peer that says anything."""

    def __init__(self, folder: Path) -> None:
        self.engine = EngineDriver(folder)
        self.engine.make()
        broker = self.engine.broker
        log = logs.get("test")
        self.server = LinkServer(broker.handle, broker.handle_sends, name="b", secret=b"", log=log)
        self.engine.run(self.server.start("127.0.0.1", 0))
        self._ids = iter(range(1, 1 << 40))

    async def _connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        self._writer.write(encode_frame(link.Frame(hello=link.Hello())))
        assert await read_frame(self._reader) is not None

    def ask(self, *bodies: dict[str, Any]) -> list[link.Reply]:
        """All in one frame of a new connection; the replies in the order of the calls, without
        those of watches, which may never come."""
        return self.engine.run(self._ask(bodies))

    async def _ask(self, bodies: tuple[dict[str, Any], ...]) -> list[link.Reply]:
        await self._connect()
        try:
            return await self._answers(bodies)
        finally:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()

    async def _answers(self, bodies: tuple[dict[str, Any], ...]) -> list[link.Reply]:
        calls = [link.Call(id=next(self._ids), **body) for body in bodies]
        self._writer.write(encode_frame(link.Frame(calls=calls)))
        answered = [call for call in calls if not call.HasField("watch")]
        found: dict[int, link.Reply] = {}
        while not all(call.id in found for call in answered):
            async with asyncio.timeout(10):
                frame = await read_frame(self._reader)
            assert frame is not None, "the broker hung up"
            found |= {reply.id: reply for reply in frame.replies}
        return [found[call.id] for call in calls if call.id in found]

    def make_neighbour(self) -> None:
        """Whatever the calls before have done to it."""
        topic = link.TopicConfig(
            name="neighbour", read_queues=1, write_queues=1, message_type="NORMAL"
        )
        self.engine.call(set_permission=link.SetPermission(perm=6))
        self.engine.call(put_topic=link.PutTopic(topic=topic))

    def live_on(self) -> None:
        """What runs beside the calls still runs, and another start finds all that is there."""
        engine = self.engine
        for _ in range(2):
            engine.advance(100_000)
            engine.run(engine.broker.timer_keeper.write(at_once=True))
            engine.run(engine.broker.offsets.write())
            assert engine.run(engine.broker.state.runtime.store.checkpoint())
            engine.restart()
        self.make_neighbour()
        assert engine.call(**NEIGHBOUR).HasField("send")

    def close(self) -> None:
        self.engine.run(self.server.stop(0.1))
        self.engine.close()


@contextmanager
def linked() -> Iterator[Linked]:
    with tempfile.TemporaryDirectory(dir=QUICK_DISK) as folder:
        found = Linked(Path(folder))
        try:
            yield found
        finally:
            found.close()


@pytest.mark.parametrize("kind", KINDS)
def test_any_call_is_answered_and_harms_no_other(kind: str) -> None:
    body_type = link.Call.DESCRIPTOR.fields_by_name[kind].message_type
    errors = all_errors()

    with linked() as peer:

        @given(st.lists(HOSTILE.of(body_type), min_size=1, max_size=3))
        def check(bodies: list[Any]) -> None:
            for body in bodies:
                if kind in ("pop", "pull"):
                    body.poll_ms = min(body.poll_ms, POLL_MS_MAX)
            peer.make_neighbour()
            found = peer.ask(NEIGHBOUR, *[{kind: body} for body in bodies], NEIGHBOUR)
            assert found[0].WhichOneof("body") == found[-1].WhichOneof("body") == "send", found
            for reply in found[1:-1]:
                if reply.HasField("failure"):
                    assert reply.failure.error in errors, reply

        check()
        peer.live_on()
