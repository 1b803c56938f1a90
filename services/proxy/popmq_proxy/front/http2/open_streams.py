"""Streams of one connection that are open: work that runs on them, what is held, how they end."""

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Final

from popmq_proxy.front.events import ClientDisconnectedError, Event, Receive, Send
from popmq_proxy.front.http2 import wire
from popmq_proxy.front.http2.budgets import idle
from popmq_proxy.front.http2.budgets.ended_streams import EndedStreams
from popmq_proxy.front.http2.flow_control.incoming import Incoming
from popmq_proxy.front.http2.flow_control.outgoing import Outgoing
from popmq_proxy.front.http2.shared import Member, Shared
from popmq_proxy.front.http2.stream_state import StreamState
from popmq_proxy.front.http2.wire import ConnectionBroken, Error, Setting, StreamBroken

App = Callable[[Event, Receive, Send], Coroutine[Any, Any, None]]
YOUNG_TICKS: Final = 2
"""A stream of which fewer have passed has just begun."""
TASK_S: Final = 0.000_15
"""What a turn is charged with for a task that is begun or cancelled, before it has run."""
TASK_UNITS: Final = 8
"""The same in frames, by which it is decided when the clock is read."""
DROPPED_AT_A_TIME: Final = 16


class OpenStreams:
    def __init__(
        self,
        app: App,
        shared: Shared,
        member: Member,
        outgoing: Outgoing,
        emptied: Callable[[], None],
    ) -> None:
        """`emptied` is called when the last of them has ended."""
        self.app = app
        self.shared = shared
        self.limits = limits = shared.limits
        self.accounts = member.accounts
        self.outgoing = outgoing
        self.incoming = Incoming(
            outgoing, limits.connection_window_bytes, limits.stream_window_bytes
        )
        self.open: dict[int, Any] = {}
        """`Stream`s by their ids; their class is above this one, and knows more."""
        self.last_id = 0
        self.refuses = False
        """No new ones: the connection ends."""
        self.is_unread = False
        """The client has hung up; what it had sent before is still being read."""
        self.units = 0
        """Work done since the clock was read, in frames."""
        self.stream_max = limits.streams_first
        self.worker = member.worker
        self._member = member
        self._idle = member.idle
        self._emptied = emptied
        self._loop = asyncio.get_running_loop()
        self._fresh: list[StreamState] = []
        """Begun in this slice."""
        self._ended_by_us = EndedStreams()

    def count(self, stream: StreamState, size: int) -> None:
        """So many bytes of its request are held now. Raises `StreamBroken`."""
        budget, account = self.shared.budgets.request_buffer, self.accounts.request_buffer
        grown = size - stream.counted_bytes
        if grown > 0 and not budget.admits(account, grown):
            text = "no room for unfinished requests"
            raise StreamBroken(stream.id, Error.ENHANCE_YOUR_CALM, text)
        budget.take(account, grown)
        stream.counted_bytes = size

    def run(self, stream: StreamState, work: Coroutine[Any, Any, None]) -> None:
        self.units += TASK_UNITS
        self.worker.owed_s += TASK_S
        self.shared.begin_task()
        task = stream.task = self._loop.create_task(work)
        task.add_done_callback(lambda task: self._done(stream, task))

    def _done(self, stream: StreamState, task: asyncio.Task[None]) -> None:
        """The application is through with it; without an answer there is nothing to wait for."""
        stream.task = None  # it knows the stream too: only the collector would free them
        if not stream.closed:
            self.reset(stream, Error.INTERNAL_ERROR)
        if not task.cancelled() and isinstance(task.exception(), ClientDisconnectedError):
            return  # looked at, so that asyncio does not report it

    # --- the end ---

    def on_reset(self, stream_id: int) -> None:
        """The client takes it back. Raises `ConnectionBroken`."""
        if stream_id > self.last_id:
            raise ConnectionBroken(Error.PROTOCOL_ERROR, f"a reset of idle stream {stream_id}")
        stream: StreamState | None = self.open.get(stream_id)
        if stream is None:
            self._idle.spend()
            return
        if self.shared.tick - stream.born_tick < YOUNG_TICKS:
            self._idle.spend(idle.RAPID_RESET)
        self._drop(stream)

    def answered(self, stream: StreamState) -> None:
        """Its last frame has been put."""
        if stream.ended:
            self._idle.earn(stream.worth)
        else:
            self.put_reset(stream.id, Error.NO_ERROR)
        self._forget(stream)

    def reset(self, stream: StreamState, code: Error) -> None:
        """End it, and what works on it."""
        self.put_reset(stream.id, code)
        self._drop(stream)

    def fail(self, broken: StreamBroken) -> None:
        """The client broke the rules on it."""
        stream: StreamState | None = self.open.get(broken.stream_id)
        if stream is None:
            self.put_reset(broken.stream_id, broken.code)
        else:
            self.reset(stream, broken.code)

    def put_reset(self, stream_id: int, code: Error) -> None:
        self._ended_by_us.add(stream_id)
        self.outgoing.put(wire.reset(stream_id, code))

    def _drop(self, stream: StreamState) -> None:
        """The client has no use for its answer any more, or has it."""
        self._forget(stream)
        stream.wake()
        if stream.task is not None and not stream.task.done():
            self.units += TASK_UNITS
            self.worker.owed_s += TASK_S
            stream.task.cancel()

    def _forget(self, stream: StreamState) -> None:
        stream.closed = True
        self.open.pop(stream.id, None)
        if stream.arrives:
            self.shared.arrivals.end(stream)
        if stream.outgoing:
            self.outgoing.forget(stream)
        if stream.counted_bytes:
            self.count(stream, 0)
        if stream.untaken_bytes:
            self.incoming.give_back(stream.untaken_bytes)
            stream.untaken_bytes = 0
        if not self.open and self.refuses:
            self._emptied()

    def lose(self) -> None:
        """The client is gone: nothing more leaves. `drop_some` does the rest."""
        self.refuses = True
        stream: StreamState
        for stream in self.open.values():
            stream.closed = True

    def drop_some(self, until_s: float) -> bool:
        """End some of them; True: there are none left."""
        count = 0
        while self.open:
            self._drop(self.open.popitem()[1])
            count += 1
            if count % DROPPED_AT_A_TIME == 0 and monotonic() + self.worker.owed_s >= until_s:
                break
        return not self.open

    def part(self) -> None:
        """The connection is gone, and nobody is to know it."""
        self._emptied = _nothing

    def settle(self) -> None:
        """At the end of a slice: what was begun in it and is not whole counts from now on."""
        arrivals, account = self.shared.arrivals, self._member.arriving
        if self._fresh:
            for stream in self._fresh:
                if stream.ended or stream.closed or stream.streams:
                    continue
                if not arrivals.begin(stream, account):
                    self._idle.spend(idle.REFUSED_STREAM)
                    self.reset(stream, Error.REFUSED_STREAM)
            self._fresh.clear()
        if len(self.open) * 2 > self.stream_max and self.stream_max < self.limits.streams_max:
            self._let_more(len(self.open) - account.taken - self.outgoing.held_up_count)

    def _let_more(self, working_count: int) -> None:
        """The client may open more streams when half of them are calls that we work on."""
        if working_count * 2 > self.stream_max:
            self.stream_max = min(2 * self.stream_max, self.limits.streams_max)
            self.outgoing.put(wire.settings({Setting.MAX_CONCURRENT_STREAMS: self.stream_max}))


def _nothing() -> None:
    return
