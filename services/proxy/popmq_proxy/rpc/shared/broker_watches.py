"""Watches: brokers tell of messages that no poll waits for there, and a poll of this proxy that
waits elsewhere goes and looks. What is decided is in core/routing/watched_polls.py."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Final

from popmq_common.errors import PopMQError
from popmq_common.process.logs import Log
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.routing.watched_polls import WatchedPoll, WatchedPolls, WatchKey

LOOK_S: Final = 1.0
"""How often brokers that are not watched, though polls wait, are looked at again."""
WATCH_MS: Final = 600_000
CALL_MS: Final = 3_000
Call = Callable[[str, link.Call, int], Awaitable[link.Reply]]
Readable = Callable[[str], Sequence[str]]


class BrokerWatches:
    def __init__(
        self, call: Call, answers: Callable[[str], bool], readable: Readable, log: Log
    ) -> None:
        """`answers`: whether a broker can be asked just now. `readable`: brokers of a topic, as far
        as it is known."""
        self._call = call
        self._answers = answers
        self._readable = readable
        self._log = log
        self._table = WatchedPolls()
        self._numbers = count(random.getrandbits(62))
        """Of polls; no two proxies choose the same."""
        self._listening: dict[tuple[WatchKey, str], asyncio.Task[None]] = {}
        self._telling: set[asyncio.Task[None]] = set()
        self._cut_short: dict[WatchedPoll, None] = {}

    def enter(self, pop: link.Pop) -> WatchedPoll:
        """Until `leave` it may be told of messages."""
        key = WatchKey(pop.group, pop.topic, pop.filter_kind, pop.filter_expression)
        poll = WatchedPoll(next(self._numbers), key)
        self._table.enter(poll)
        return poll

    def leave(self, poll: WatchedPoll) -> None:
        self._table.leave(poll, _now_s())
        self._cut_short.pop(poll, None)
        if poll.heard:
            self._spoke(poll.key, poll.heard)

    def to_look_at(self, poll: WatchedPoll, others: Sequence[str]) -> list[str]:
        """Those of `others` that answer and may have something, the one that spoke first."""
        found = self._table.to_look_at(poll.key, others, _now_s())
        if poll.heard:
            found = [poll.heard, *(one for one in found if one != poll.heard)]
        return [one for one in found if self._answers(one)]

    async def look(self, poll: WatchedPoll, broker: str) -> None:
        """The poll looks at this broker next: from now on an arrival there is told."""
        if poll.heard == broker:
            poll.heard = ""
        self._cut_short.pop(poll, None)
        if self._table.begin_watch(poll.key, broker):
            place = poll.key, broker
            task = self._listening[place] = asyncio.create_task(self._listen(*place))
            task.add_done_callback(lambda ended: self._forget(place, ended))
            await asyncio.sleep(0)  # the watch goes first

    def found_nothing(self, poll: WatchedPoll, broker: str) -> None:
        self._table.found_nothing(poll.key, broker, _now_s())

    async def run(self) -> None:
        """Look at brokers that came, or came back; for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.tend()

    def tend(self) -> None:
        """Once."""
        for poll in list(self._cut_short):
            self._end(poll)  # its pop may have been on its way when it was cut short
        for key, watched in self._table.unwatched():
            brokers = self._readable(key.topic)
            for broker in brokers if len(brokers) > 1 or watched else ():
                if broker not in watched and self._answers(broker):
                    self._send_one(key, broker)
        for key in self._table.forget_unused(_now_s()):
            for place, task in self._listening.items():
                if place[0] == key:
                    task.cancel()

    async def close(self) -> None:
        tasks = [*self._listening.values(), *self._telling]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, key: WatchKey, broker: str) -> None:
        watch = link.Watch(
            group=key.group,
            topic=key.topic,
            filter_kind=link.FilterKind.ValueType(key.filter_kind),
            filter_expression=key.filter_expression,
        )
        try:
            await self._call(broker, link.Call(watch=watch), WATCH_MS)
        except PopMQError as failed:
            self._table.lost(key, broker)
            self._log.debug("watch.ended", broker=broker, topic=key.topic, reason=str(failed))
        else:
            self._spoke(key, broker)

    def _forget(self, place: tuple[WatchKey, str], ended: asyncio.Task[None]) -> None:
        if self._listening.get(place) is ended:  # else the next watch has begun in the meantime
            del self._listening[place]

    def _spoke(self, key: WatchKey, broker: str) -> None:
        if not self._send_one(key, broker):
            pass_on = link.PassOn(group=key.group, topic=key.topic)
            self._tell(broker, link.Call(pass_on=pass_on))

    def _send_one(self, key: WatchKey, broker: str) -> bool:
        """A poll that waits elsewhere looks there. False: there is none."""
        poll = self._table.spoke(key, broker)
        if poll is not None and poll.at:
            self._cut_short[poll] = None
            self._end(poll)
        return poll is not None

    def _end(self, poll: WatchedPoll) -> None:
        self._tell(poll.at, link.Call(end_poll=link.EndPoll(poll_id=poll.number)))

    def _tell(self, broker: str, call: link.Call) -> None:
        task = asyncio.create_task(self._try(broker, call))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _try(self, broker: str, call: link.Call) -> None:
        try:
            await self._call(broker, call, CALL_MS)
        except PopMQError as failed:  # the poll's own time, or the next look, ends it too
            self._log.debug("watch.untold", broker=broker, reason=str(failed))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
