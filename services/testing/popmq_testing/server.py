"""Broker and proxy inside the test's process, on a clock that the test moves.

The same code as `popmq standalone`, put together so that each part can be crashed alone. Files are
real and in memory where the system has a place for that; nothing of it outlives the test.
"""

import asyncio
import shutil
import tempfile
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from popmq_broker.app import open_engine, registered
from popmq_broker.config import BrokerConfig, Flush
from popmq_broker.engine.broker import Broker
from popmq_common.process.clock import VirtualClock
from popmq_common.units import MiB
from popmq_nameserver.core.route_table import RouteTable
from popmq_proxy.app import application, handlers, http2_server
from popmq_proxy.clients.local_brokers import LocalBroker, LocalBrokers
from popmq_proxy.clients.nameservers import LocalNameservers
from popmq_proxy.config import ProxyConfig
from popmq_proxy.front.http2.server import Http2Server
from popmq_proxy.front.rpcs import Rpc
from popmq_standalone.app import NEVER_MS, LocalAnnouncer
from popmq_testing.faults import Drops, MortalBroker
from popmq_testing.times import in_test_time

MEMORY: Final = Path("/dev/shm")
HOST: Final = "127.0.0.1"
STEPS_MAX: Final = 10_000
"""Times at which something is due that one advance of the clock stops at; then it jumps."""
FOREVER_MS: Final = 1 << 40
"""Time is moved by hand, so nobody is silent for long."""
STOP_S: Final = 1.0


class Server:
    """All of it runs on one event loop; every method is called there."""

    def __init__(self, clock: VirtualClock, new_groups_from: str, settings: dict[str, Any]) -> None:
        self.clock = clock
        self.drops = Drops()
        self.port = 0
        self.rpcs: dict[str, Rpc] = {}
        self._folder = Path(
            tempfile.mkdtemp(prefix="popmq-testing-", dir=MEMORY if MEMORY.is_dir() else None)
        )
        self._config = BrokerConfig(
            **{
                "data_dir": self._folder / "data",
                "flush": Flush.ASYNC,
                "create_groups": True,
                "segment_bytes": 64 * MiB,
                "queue_file_bytes": 200_000,
                "index_slots": 1_000,
                "index_entries": 10_000,
                "disk_reserve_bytes": 0,
                "disk_clean_percent": 100,
                "disk_refuse_percent": 100,
                **settings,
            }
        )
        self._table = RouteTable(NEVER_MS)
        self._gate = MortalBroker(new_groups_from=new_groups_from)
        self._broker: Broker | None = None
        self._beside: asyncio.Task[None] | None = None
        self._registration = AsyncExitStack()
        self._proxy = AsyncExitStack()
        self._front: Http2Server | None = None

    @property
    def broker(self) -> Broker:
        assert self._broker is not None, "it was started"
        if self._beside is not None and self._beside.done():
            self._beside.result()  # what a broker runs beside its calls has failed: a bug
        return self._broker

    async def start(self) -> None:
        await self._start_broker()
        await self.start_proxy()

    async def stop(self) -> None:
        await self.stop_proxy(STOP_S)
        await self._registration.aclose()
        if self._beside is not None:
            self._beside.cancel()
            await asyncio.gather(self._beside, return_exceptions=True)
        self._gate.die()
        if self._broker is not None:
            self._broker.state.runtime.store.abandon()
        shutil.rmtree(self._folder)

    # --- the broker ---

    async def _start_broker(self) -> None:
        self._broker = broker = await open_engine(self._config, self.clock)
        self._beside = asyncio.create_task(broker.run(), name="broker")
        announcer = LocalAnnouncer(self._table, self.clock)
        registration = registered(broker, "in-process", [announcer], self.clock)
        await self._registration.enter_async_context(registration)
        await broker.topics.announce()
        self._gate.begin(broker)

    async def crash_broker(self) -> None:
        """As kill -9 does: what was answered is on disk, all else is gone. Then it starts again."""
        broker, beside = self.broker, self._beside
        self._gate.die()
        broker.state.runtime.store.abandon()
        if beside is not None:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)
        await self._registration.aclose()
        self._registration = AsyncExitStack()
        await self._start_broker()

    async def advance(self, ms: int) -> None:
        """Time passes, from one moment at which something is due to the next; all that is due on
        the way is done, and on disk."""
        end_ms = self.clock.now_ms() + ms
        for _ in range(STEPS_MAX):
            now_ms = self.clock.now_ms()
            due_ms = self._next_due_ms(now_ms)
            step_ms = end_ms if due_ms is None else min(due_ms, end_ms)
            self.clock.advance(step_ms - now_ms)
            await self.settle()
            if step_ms == end_ms:
                return
        self.clock.advance(end_ms - self.clock.now_ms())
        await self.settle()

    def _next_due_ms(self, now_ms: int) -> int | None:
        broker = self.broker
        times = [
            broker.state.lease_state.table.next_due_ms(),
            broker.timers.wheel.next_wake_ms(),
            broker.timers.levels.next_due_ms(),
        ]
        return min((ms for ms in times if ms is not None and ms > now_ms), default=None)

    async def settle(self) -> None:
        """What is due now is done, and on disk."""
        broker = self.broker
        while await broker.storing.store_due():
            pass
        while await broker.revive.revive_due():
            pass
        while broker.timers.deliver_due():
            pass
        await broker.checks.tend()
        await broker.state.runtime.store.durable(broker.state.runtime.store.log_end)
        await asyncio.sleep(0)

    # --- the proxy ---

    async def start_proxy(self) -> None:
        """At the port that it had before, if it had one."""
        config = ProxyConfig(
            host=HOST,
            port=self.port,
            create_topics=True,
            session_expiry_ms=FOREVER_MS,
            alive_ms=FOREVER_MS,
        )
        brokers = {self._config.name: LocalBroker(self._gate.handle, self._gate.handle_sends)}
        nameservers = LocalNameservers(self._table.lookup, self._table.brokers)
        stack = self._proxy
        links = LocalBrokers(brokers, config.gather_ms_max)
        inner = await stack.enter_async_context(
            handlers(config, self.clock, nameservers=nameservers, brokers=links)
        )
        rpcs = [in_test_time(self.drops.on(rpc), self.clock.now_ms) for rpc in inner.rpcs]
        inner = replace(inner, rpcs=rpcs)
        app = application(config, inner)
        front = http2_server(config, inner, app)
        self.port = inner.upstream.port = front.bind(HOST, config.port)
        front.start()
        self._front = front
        self.rpcs = {rpc.name: rpc for rpc in inner.rpcs}

    async def stop_proxy(self, grace_s: float = 0.0) -> None:
        """Without a time to finish: connections end in the middle of what they carry."""
        if self._front is not None:
            await self._front.stop(grace_s)
            self._front = None
        await self._proxy.aclose()
        self._proxy = AsyncExitStack()
