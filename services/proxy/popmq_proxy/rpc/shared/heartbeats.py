"""Heartbeats to the brokers: which clients live, so that the brokers renew their leases.

Every few seconds each broker gets the clients that this proxy has heard of lately. Nothing is kept
beside the sessions: a client that goes on through another proxy is told of by that one, and two
proxies that tell of one client do no harm. A goodbye is passed on at once; silence is not, the
leases just end.
"""

import asyncio
from itertools import islice

from popmq_common.errors import PopMQError
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.rpc.shared.context import Upstream

CLIENTS_MAX = 1_024  # of one call, the broker's bound
HEARTBEATS_PER_LEASE = 4
"""So many of them fit into a lease's time, so that one or two may get lost."""


class Heartbeats:
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        config = upstream.config
        self.interval_ms = min(
            config.alive_interval_ms, config.invisible_ms_default // HEARTBEATS_PER_LEASE
        )

    async def run(self) -> None:
        """Tell at each interval, and forget what nobody has used for long; for ever."""
        while True:
            await asyncio.sleep(self.interval_ms / 1000)
            await self.tell()
            self._upstream.forget_unused()

    async def tell(self) -> None:
        """Once, to every broker; one that does not answer hears it at the next interval."""
        upstream = self._upstream
        brokers = await self._brokers()  # also tells the routes whether a nameserver answers
        since_ms = upstream.clock.now_ms() - upstream.config.alive_ms
        clients = iter(upstream.sessions.alive(since_ms))
        while some := list(islice(clients, CLIENTS_MAX)):
            await self._tell_all(brokers, link.Call(alive=link.Alive(client_ids=some)))

    async def goodbye(self, client_id: str) -> None:
        gone = link.Call(gone=link.Gone(client_ids=[client_id]))
        await self._tell_all(await self._brokers(), gone)

    async def _brokers(self) -> list[str]:
        try:
            return [info.name for info in await self._upstream.routes.brokers()]
        except PopMQError as failed:
            self._upstream.log.warning("signs.untold", reason=str(failed))
            return []

    async def _tell_all(self, brokers: list[str], call: link.Call) -> None:
        await asyncio.gather(*(self._tell_one(broker, call) for broker in brokers))

    async def _tell_one(self, broker: str, call: link.Call) -> None:
        own = link.Call()
        own.CopyFrom(call)
        try:
            await self._upstream.call(broker, own)
        except PopMQError as failed:
            self._upstream.log.warning("signs.untold", broker=broker, reason=str(failed))
