"""A worker: the process of one shard. Its proxy serves the clients that the supervisor hands over;
its broker serves that proxy by calls, and the proxies of the other workers over the link.

It is started by the supervisor, which writes its `WorkerTask` to its standard input.
"""

import asyncio
import pickle
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Final

import uvloop
from prometheus_client import CollectorRegistry, generate_latest

from popmq_broker import metrics as broker_metrics
from popmq_broker.app import BrokerServer, server
from popmq_broker.config import BrokerConfig
from popmq_common.errors import PopMQError
from popmq_common.metrics.metrics_http import add_process
from popmq_common.process import logs
from popmq_common.process.clock import SystemClock
from popmq_common.process.config import ConfigError
from popmq_common.process.memory import keep_little
from popmq_common.process.serve import spare_collector
from popmq_proxy.app import Proxy, proxy
from popmq_proxy.clients.joined_brokers import OwnBroker
from popmq_proxy.clients.local_brokers import LocalBroker
from popmq_proxy.config import ProxyConfig
from popmq_standalone.cores.balance import LOOK_S
from popmq_standalone.cores.channel import Channel, HandedOver

TELL_S: Final = 0.2
"""How often a worker says how many connections it has, when that changed."""


@dataclass(frozen=True, slots=True)
class WorkerTask:
    broker: BrokerConfig
    proxy: ProxyConfig
    log_level: str
    control_fd: int
    connections_fd: int


def main() -> int:
    task: WorkerTask = pickle.load(sys.stdin.buffer)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the supervisor gets it too, and stops in order
    logs.configure(task.log_level, limited=True)
    keep_little()
    return uvloop.run(_run(task))


async def _run(task: WorkerTask) -> int:
    control = await Channel.over(socket.socket(fileno=task.control_fd))
    handed = HandedOver(socket.socket(fileno=task.connections_fd))
    try:
        await Worker(task, control, handed).run()
    except (PopMQError, ConfigError, RuntimeError, ValueError, OSError) as wrong:
        control.say(failed=str(wrong))
        return 1
    finally:
        control.close()
    return 0


class Worker:
    def __init__(self, task: WorkerTask, control: Channel, handed: HandedOver) -> None:
        self._task = task
        self._control = control
        self._handed = handed
        self._draining = asyncio.Event()
        self._ending = asyncio.Event()

    async def run(self) -> None:
        """Raises what keeps broker or proxy from starting."""
        clock = SystemClock()
        async with server(self._task.broker, clock) as broker:
            own = OwnBroker(
                self._task.broker.name,
                LocalBroker(broker.broker.handle, broker.broker.handle_sends),
            )
            async with proxy(self._task.proxy, clock, own=own, arriving=self._handed.next) as front:
                spare_collector()
                await self._serve(broker, front)
            self._control.say(drained=True)
            await self._ending.wait()

    async def _serve(self, broker: BrokerServer, front: Proxy) -> None:
        listening = asyncio.create_task(self._listen(broker, front))
        listening.add_done_callback(self._end)
        telling = asyncio.create_task(self._tell(front))
        self._control.say(ready=True)
        try:
            await self._draining.wait()
        finally:
            telling.cancel()

    def _end(self, _: object) -> None:
        self._draining.set()
        self._ending.set()

    async def _listen(self, broker: BrokerServer, front: Proxy) -> None:
        """Until the supervisor says that this is the end, or is gone."""
        figures = _figures(broker, front)
        while (told := await self._control.next()) is not None and told["do"] != "end":
            match told["do"]:
                case "figures":
                    self._control.say(figures=generate_latest(figures).decode())
                case "move":
                    self._control.say(move=front.move_one(told["share"]))
                case "spread":
                    self._control.say(spread=await _spread(front))
                case "drain":
                    self._draining.set()

    async def _tell(self, front: Proxy) -> None:
        before = None
        looked_s, used_s = time.monotonic(), time.thread_time()
        while True:
            now = front.connection_count(), self._handed.taken
            if now != before:
                self._control.say(open=now[0], taken=now[1])
                before = now
            await asyncio.sleep(TELL_S)
            passed_s = time.monotonic() - looked_s
            if passed_s >= LOOK_S:  # this thread has the event loop: what it used is what it lacks
                self._control.say(busy=round((time.thread_time() - used_s) / passed_s, 2))
                looked_s, used_s = time.monotonic(), time.thread_time()


async def _spread(front: Proxy) -> dict[str, int | str]:
    try:
        return {"topics": await front.inner.spread_topics()}
    except PopMQError as failed:
        return {"failed": str(failed)}


def _figures(broker: BrokerServer, front: Proxy) -> CollectorRegistry:
    found = broker_metrics.registry(broker.broker)
    found.register(front.inner.metrics)
    add_process(found)
    return found


if __name__ == "__main__":
    sys.exit(main())
