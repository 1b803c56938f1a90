"""The worker's side: what it is told at its start, and what the supervisor asks it for."""

import asyncio
import pickle
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import uvloop
from prometheus_client import CollectorRegistry, generate_latest

from popmq_common.errors import PopMQError
from popmq_common.metrics.metrics_http import add_process
from popmq_common.process import logs
from popmq_common.process.config import ConfigError
from popmq_common.process.memory import keep_little
from popmq_common.process.serve import spare_collector
from popmq_common.workers.balance import LOOK_S
from popmq_common.workers.channel import Channel, HandedOver

TELL_S: Final = 0.2
"""How often a worker says how many connections it has, when that changed."""
Answer = Callable[[Mapping[str, Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """What the supervisor writes to a worker's standard input."""

    settings: Any
    log_level: str
    control_fd: int
    connections_fd: int


class Clients(NamedTuple):
    """Of a worker to which connections are handed over."""

    connection_count: Callable[[], int]
    move_one: Callable[[float], str]


class Worker:
    def __init__(self, control: Channel, handed: HandedOver) -> None:
        self._control = control
        self.handed = handed
        self._draining = asyncio.Event()
        self._ending = asyncio.Event()

    async def serve(
        self,
        figures: CollectorRegistry,
        clients: Clients | None = None,
        answers: Mapping[str, Answer] | None = None,
    ) -> None:
        """Say that it is ready; until the supervisor says to drain, or is gone. `answers`: what
        else it may ask for."""
        add_process(figures)
        spare_collector()
        listening = asyncio.create_task(self._listen(figures, clients, answers or {}))
        listening.add_done_callback(self._end)
        telling = asyncio.create_task(self._tell(clients)) if clients else None
        self._control.say(ready=True)
        try:
            await self._draining.wait()
        finally:
            if telling is not None:
                telling.cancel()

    async def end(self) -> None:
        """Say that it serves no clients any more; until the supervisor says that this is the end,
        or is gone."""
        self._control.say(drained=True)
        await self._ending.wait()

    def _end(self, _: object) -> None:
        self._draining.set()
        self._ending.set()

    async def _listen(
        self,
        figures: CollectorRegistry,
        clients: Clients | None,
        answers: Mapping[str, Answer],
    ) -> None:
        while (told := await self._control.next()) is not None and told["do"] != "end":
            match told["do"]:
                case "figures":
                    self._control.say(figures=generate_latest(figures).decode())
                case "move":
                    self._control.say(move=clients.move_one(told["share"]) if clients else "")
                case "drain":
                    self._draining.set()
                case other:
                    self._control.say(**{other: await answers[other](told)})

    async def _tell(self, clients: Clients) -> None:
        before = None
        looked_s, used_s = time.monotonic(), time.thread_time()
        while True:
            now = clients.connection_count(), self.handed.taken
            if now != before:
                self._control.say(open=now[0], taken=now[1])
                before = now
            await asyncio.sleep(TELL_S)
            passed_s = time.monotonic() - looked_s
            if passed_s >= LOOK_S:  # this thread has the event loop: what it used is what it lacks
                self._control.say(busy=round((time.thread_time() - used_s) / passed_s, 2))
                looked_s, used_s = time.monotonic(), time.thread_time()


def run_worker(run: Callable[[Any, Worker], Awaitable[None]]) -> int:
    """The process of a worker; its exit code. `run` gets the settings, serves until the worker is
    told to drain, and raises what keeps it from starting."""
    task: WorkerTask = pickle.load(sys.stdin.buffer)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the supervisor gets it too, and stops in order
    logs.configure(task.log_level, limited=True)
    keep_little()
    return uvloop.run(_run(task, run))


async def _run(task: WorkerTask, run: Callable[[Any, Worker], Awaitable[None]]) -> int:
    logs.log_unhandled()
    control = await Channel.over(socket.socket(fileno=task.control_fd))
    handed = HandedOver(socket.socket(fileno=task.connections_fd))
    try:
        await run(task.settings, Worker(control, handed))
    except (PopMQError, ConfigError, RuntimeError, ValueError, OSError) as wrong:
        control.say(failed=str(wrong))
        return 1
    finally:
        control.close()
    return 0
