"""Clients that send and receive, and tell the book what they were answered."""

import asyncio
from zlib import crc32

from sim.held_lease import Lease
from sim.link import Lost, NotSent, Proxy, Refused, answer_of
from sim.model import GroupLife, Message, Standing
from sim.plan import LINES, TAGS, TOPICS
from sim.violation import Violation
from sim.world import World

from popmq_common.records import hosts, properties
from popmq_common.records.receipt import decode as decode_receipt
from popmq_common.records.record import Record
from popmq_common.records.record import decode as decode_record
from popmq_internal.v1 import link_pb2 as link

CANCEL_S = 2.0
"""Until then a call whose client has gone away has ended."""
Held = tuple[GroupLife, Standing, Lease]


class Receivers:
    def __init__(self, world: World) -> None:
        self.world = world
        self.book = world.book
        self.random = world.random
        self.held: list[Held] = []
        self.old: list[Held] = []
        """Handles that are done with; they must not do anything any more."""
        self._sent = 0
        self._attempts = 0

    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    def proxy(self) -> Proxy:
        return self.random.choice(self.world.proxies)

    def quake(self, *things: str) -> tuple[int, ...]:
        return tuple(self.world.quakes.get(thing, 0) for thing in things)

    def shaken(self, before: tuple[int, ...], *things: str) -> bool:
        """Something was made anew meanwhile: nobody knows which one the call met."""
        return before != self.quake(*things) or any(count % 2 for count in before)

    # --- send ---

    async def send(self, count: int = 1) -> None:
        topic = self.random.choice(list(TOPICS))
        await self.send_to(topic, self.random.choice(LINES), count=count)

    async def send_to(self, topic: str, line: str, tag: str | None = None, count: int = 1) -> None:
        """`tag` None: any."""
        queue_id = crc32(line.encode()) % TOPICS[topic]
        quakes = self.quake(topic)
        messages = []
        for _ in range(count):
            self._sent += 1
            with_tag = self.random.choice(TAGS) if tag is None else tag
            messages.append(self.book.sending(self._sent, topic, queue_id, line, with_tag))
        if any(count % 2 for count in quakes):
            _unsure(messages)
        self.book.open_sends.update(messages)
        try:
            await self._send(topic, queue_id, messages)
        finally:
            self.book.open_sends.difference_update(messages)

    async def _send(self, topic: str, queue_id: int, messages: list[Message]) -> None:
        records = [_record(message) for message in messages]
        request = link.Send(topic=topic, queue_id=queue_id, records=records)
        try:
            reply = (await self.proxy().call(send=request)).send
        except (NotSent, Refused):
            for message in messages:
                del self.book.messages[message.id]
            return
        except Lost:
            return
        if any(message.topic_life is None for message in messages):
            return  # the topic was made anew meanwhile
        for i, message in enumerate(messages):
            self.book.sent(message, reply.queue_offset + i, self.now_ms())

    async def send_run(self) -> None:
        await self.send(self.random.randint(2, 5))

    # --- receive ---

    async def pop(self) -> None:
        await self.receive(self.a_group(), poll_ms=0)

    async def poll(self) -> None:
        await self.receive(self.a_group(), poll_ms=self.random.choice([20, 500, 5_000]))

    async def vanish(self) -> None:
        """A client that is gone before the answer comes."""
        await self.receive(self.a_group(), poll_ms=3_000, patience_s=self.random.uniform(0, 0.2))

    def a_group(self) -> GroupLife:
        return self.random.choice(list(self.book.groups.values()))

    async def receive(
        self,
        group: GroupLife,
        *,
        topic: str = "",
        poll_ms: int,
        patience_s: float = 0.0,
        count: int = 0,
        attempt_id: str = "",
        invisible_ms: int = 0,
    ) -> list[Held]:
        group = self.book.groups[group.name]  # it may have been made anew since
        topic = topic or self.random.choice(list(TOPICS))
        if not attempt_id and (group.fifo or self.random.random() < 0.2):
            self._attempts += 1
            attempt_id = f"try-{self._attempts}"
        request = link.Pop(
            group=group.name,
            topic=topic,
            batch_size=count or self.random.choice([1, 2, 8, 32]),
            invisible_ms=invisible_ms or self.random.choice(self.world.plan.invisible_ms),
            poll_ms=poll_ms,
            attempt_id=attempt_id,
        )
        if group.tags is not None:
            request.filter_kind = link.FILTER_KIND_SQL if group.sql else link.FILTER_KIND_TAG
            request.filter_expression = group.sql or "||".join(sorted(group.tags))
        quakes = self.quake(group.name, topic)
        group.open_pops[topic] = group.open_pops.get(topic, 0) + 1
        life = self.book.topic_lives[topic]
        try:
            reply = await self._pop(request, patience_s)
        except (NotSent, Refused):
            group.open_pops[topic] -= 1
            return []
        except Lost:
            group.open_pops[topic] -= 1
            self.book.pop_lost(group)
            if group.fifo and attempt_id and self.random.random() < 0.5:
                await self.receive(group, topic=topic, poll_ms=0, attempt_id=attempt_id)
            return []
        group.open_pops[topic] -= 1
        if self.shaken(quakes, group.name, topic):
            self.book.pop_lost(group)
            return []
        group.begun.setdefault((topic, life), self._sent + 1)
        return self._received(group, request, list(reply.messages))

    async def _pop(self, request: link.Pop, patience_s: float) -> link.PopReply:
        proxy = self.proxy()
        call_id, waiter = proxy.begin({"pop": request})
        if patience_s:
            done, _ = await asyncio.wait([waiter], timeout=patience_s)
            if not done:
                proxy.give_up(call_id)
                done, _ = await asyncio.wait([waiter], timeout=CANCEL_S)
            if not done:
                raise Lost
        return answer_of(await waiter).pop

    def _received(
        self, group: GroupLife, request: link.Pop, messages: list[link.PoppedMessage]
    ) -> list[Held]:
        self.world.read_dead_letters()
        found: list[Held] = []
        came: set[str] = set()
        last: dict[tuple[str, int], int] = {}
        for one in messages:
            receipt = decode_receipt(one.handle)
            record = decode_record(one.record, where="pop", log_offset=receipt.log_offset)
            message = self._message_of(record, request.topic)
            lease = Lease(
                key=(receipt.log_offset, receipt.generation),
                handle=one.handle,
                pop_ms=receipt.pop_time_ms,
                due_ms=receipt.pop_time_ms + receipt.invisible_ms,
                attempt=one.delivery_attempt or record.reconsume_times + 1,
                attempt_id=request.attempt_id,
                lost_before=group.lost_pops,
            )
            message.events.append((self.now_ms(), f"{group.name}: received {lease}"))
            queue = (record.topic, record.queue_id)
            if record.queue_offset <= last.get(queue, -1) and not group.fifo:
                raise Violation("I6", "a reply is out of order", message.id)
            if not receipt.retry_mark and not group.fifo and queue in last:
                self._check_gap(group, queue, last[queue], record.queue_offset)
            last[queue] = record.queue_offset
            standing = self.book.delivered(group, message, lease, receipt)
            if group.fifo:
                self.book.check_line(group, message, came)
            came.add(message.id)
            found.append((group, standing, lease))
        self.held += found
        return found

    def _check_gap(self, group: GroupLife, queue: tuple[str, int], last: int, now: int) -> None:
        for offset in range(last + 1, now):
            name = self.book.places.get((*queue, offset))
            if name is not None and group.wants(self.book.messages[name]):
                raise Violation("I6", "a reply has left it out", name)

    def _message_of(self, record: Record, topic: str) -> Message:
        found = properties.decode(record.properties)
        message = self.book.messages.get(found.get(properties.UNIQ_KEY, ""))
        if message is None or message.topic != topic:
            raise Violation("I2", f"nobody sent {found} to {topic}")
        kept = {name: found.get(name) for name in _properties(message)}
        if record.body != message.body or kept != _properties(message):
            raise Violation("I2", f"changed: {record}", message.id)
        return message


def _unsure(messages: list[Message]) -> None:
    for message in messages:
        message.topic_life = None


def _properties(message: Message) -> dict[str, str]:
    named = {properties.UNIQ_KEY: message.id, "colour": f"blue-{message.id}"}
    if message.tag:
        named[properties.TAGS] = message.tag
    if message.message_group:
        named[properties.SHARDING_KEY] = message.message_group
    return named


def _record(message: Message) -> link.OutgoingRecord:
    return link.OutgoingRecord(
        body=message.body,
        properties=properties.encode(_properties(message)),
        born_timestamp_ms=7,
        born_host=hosts.LOCAL,
    )
