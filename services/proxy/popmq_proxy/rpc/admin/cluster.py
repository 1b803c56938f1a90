"""popmq.admin.v1 ShowCluster: nameservers, brokers and proxies, each with its figures.

Proxies are registered nowhere. Each tells all brokers of itself every few seconds, and whoever is
asked collects what the brokers heard; the protocol's clients need none of it.
"""

import asyncio
import os
import socket
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import NotServed, PopMQError, Unavailable
from popmq_common.process.installed import version
from popmq_common.process.process_use import cpu_ms, memory_bytes
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.metrics import ProxyMetrics
from popmq_proxy.rpc.admin.replicas import groups_of
from popmq_proxy.rpc.shared.context import CallContext, Upstream
from popmq_proxy.rpc.shared.proxy_report import ProxyReporter

PRESENCE_S: Final = 5.0
"""The brokers take a proxy for gone after three times as long (core/catalog/proxies.py)."""
BIND_S: Final = 0.05
TIMEOUT_MS: Final = 3_000
"""A broker that is slower is told as one that does not answer."""
_ANY: Final = {"0.0.0.0", "::", ""}


class ClusterHandler:
    def __init__(self, upstream: Upstream, metrics: ProxyMetrics, reporter: ProxyReporter) -> None:
        self._upstream = upstream
        self._reporter = reporter
        self._metrics = metrics
        self._started_ms = upstream.clock.now_ms()
        self._reported = admin.ProxyFigures(now_ms=self._started_ms, cpu_ms=cpu_ms())
        """The last report; before the first one, the start."""

    async def run(self) -> None:
        """Tell the brokers of this proxy, for ever. Its port is a part of what it is called."""
        while True:
            if is_bound := self._upstream.port != 0:
                await self._tell()
            await asyncio.sleep(PRESENCE_S if is_bound else BIND_S)

    async def _tell(self) -> None:
        """What goes wrong is told by the calls that clients wait for; an older broker does not
        know the call."""
        try:
            brokers = await self._upstream.routes.brokers()
        except Unavailable:
            return
        own = self._own()
        here = link.Call(proxy_here=link.ProxyFigures.FromString(own.SerializeToString()))
        asked = [self._upstream.call(one.name, here, TIMEOUT_MS) for one in brokers]
        for failed in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(failed, BaseException) and not isinstance(failed, PopMQError):
                raise failed
        self._reported = own
        names = [one.name for one in brokers]
        await self._reporter.tell(self.own_id, self.own_name, names)

    @property
    def own_id(self) -> str:
        """Of this process among all proxies."""
        return f"{self._address}/{socket.gethostname()}/{os.getpid()}"

    @property
    def own_name(self) -> str:
        """As people call it."""
        return self._upstream.config.name or self._address

    @property
    def _address(self) -> str:
        config = self._upstream.config
        host = socket.gethostname() if config.host in _ANY else config.host
        return f"{host}:{self._upstream.port}"

    def _own(self) -> admin.ProxyFigures:
        upstream, address = self._upstream, self._address
        calls, failed = self._metrics.totals()
        return admin.ProxyFigures(
            id=self.own_id,
            address=address,
            version=version(),
            now_ms=upstream.clock.now_ms(),
            started_ms=self._started_ms,
            cpu_ms=cpu_ms(),
            memory_bytes=memory_bytes(),
            clients=len(upstream.sessions),
            calls=calls,
            failed=failed,
            name=upstream.config.name,
            before_ms=self._reported.now_ms,
            before_cpu_ms=self._reported.cpu_ms,
            before_calls=self._reported.calls,
            before_failed=self._reported.failed,
        )

    async def show(
        self, ctx: CallContext, request: admin.ShowClusterRequest
    ) -> admin.ShowClusterResponse:
        """Who does not answer is told, not raised."""
        upstream = self._upstream
        standings = asyncio.ensure_future(upstream.routes.nameservers())
        try:
            registered = await upstream.routes.expected()
        except Unavailable:
            registered = []  # the nameservers' own failures say why
        answers = await asyncio.gather(*(self._ask(info) for info in registered))
        own = self._own()
        proxies = {figures.id: figures for answer in answers for figures in answer.figures.proxies}
        proxies.pop(own.id, None)
        for answer in answers:
            answer.figures.ClearField("proxies")
        return admin.ShowClusterResponse(
            now_ms=upstream.clock.now_ms(),
            nameservers=[
                admin.NameserverFigures(
                    address=one.address,
                    failure=one.failure,
                    version=one.found.version,
                    started_ms=one.found.started_ms,
                    brokers=one.found.brokers,
                    topics=one.found.topics,
                )
                for one in await standings
            ],
            brokers=answers,
            proxies=[own, *(figures for _, figures in sorted(proxies.items()))],
        )

    async def _ask(self, info: ns.BrokerInfo) -> admin.BrokerAnswer:
        answer = admin.BrokerAnswer(name=info.name, address=info.address)
        call = link.Call(figures=link.Figures())
        if info.replica:
            (group,) = await groups_of(self._upstream, [info])
            answer.replicas.CopyFrom(group)
        try:
            reply = await self._upstream.call(info.name, call, TIMEOUT_MS)
        except NotServed:
            answer.failure = "it is older than this proxy and does not tell its figures"
        except PopMQError as failed:
            answer.failure = str(failed)
        else:
            answer.figures.ParseFromString(reply.figures.SerializeToString())
        return answer
