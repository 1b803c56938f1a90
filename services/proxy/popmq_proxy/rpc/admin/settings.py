"""popmq.admin.v1 ShowSettings: what each broker and proxy was told, and by what.

A broker tells its own. A proxy has left its settings with the brokers, as it has no connection to
other proxies (rpc/shared/proxy_report.py); a proxy that is gone is not told.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, NotServed, PopMQError
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.rpc.admin.cluster import ClusterHandler
from popmq_proxy.rpc.shared.context import CallContext, Upstream
from popmq_proxy.rpc.shared.proxy_report import TIMEOUT_MS, ProxyReporter

SILENT_MS: Final = 16_000
"""Silence after which a proxy is gone: three of its signs."""
BROKER: Final = "broker"
PROXY: Final = "proxy"


class SettingsHandler:
    def __init__(
        self, upstream: Upstream, cluster: ClusterHandler, reporter: ProxyReporter
    ) -> None:
        self._upstream = upstream
        self._cluster = cluster
        self._reporter = reporter

    async def show(
        self, ctx: CallContext, request: admin.ShowSettingsRequest
    ) -> admin.ShowSettingsResponse:
        """Who does not answer is told, not raised. Raises `BadRequest` for a name that no broker
        or proxy has, `NoBroker`, `NameserverDown`."""
        names = await self._upstream.registered()
        wanted = [name for name in names if request.name in ("", name)]
        services = list(await asyncio.gather(*(self._of_broker(name) for name in wanted)))
        proxies = await self._of_proxies(names)
        services += [one for one in proxies if request.name in ("", one.name)]
        if not services:
            known = ", ".join([*names, *(one.name for one in proxies)])
            reason = f"there is no broker or proxy {request.name!r}; there are {known}"
            raise BadRequest(reason=reason)
        return admin.ShowSettingsResponse(services=services)

    async def _of_broker(self, name: str) -> admin.ServiceSettings:
        told = admin.ServiceSettings(role=BROKER, name=name)
        call = link.Call(show_settings=link.ShowSettings())
        try:
            reply = await self._upstream.call(name, call, TIMEOUT_MS)
        except NotServed:
            told.failure = "it is older than this proxy and does not tell its settings"
        except PopMQError as failed:
            told.failure = str(failed)
        else:
            told.settings.extend(_settings(reply.settings.settings))
        return told

    async def _of_proxies(self, brokers: Iterable[str]) -> list[admin.ServiceSettings]:
        """This one first."""
        asked = [self._proxies_at(broker) for broker in brokers]
        heard = {one.id: one for found in await asyncio.gather(*asked) for one in found}
        heard.pop(self._cluster.own_id, None)
        own = _of_proxy(self._cluster.own_name, self._reporter.settings)
        return [own, *(_of_proxy(one.name, one.settings) for _, one in sorted(heard.items()))]

    async def _proxies_at(self, broker: str) -> list[link.KnownProxy]:
        """None of a broker that does not answer: the others have heard of the same ones."""
        call = link.Call(show_proxies=link.ShowProxies(settings=True))
        try:
            reply = await self._upstream.call(broker, call, TIMEOUT_MS)
        except PopMQError:
            return []
        return [one for one in reply.proxies.proxies if one.silent_ms <= SILENT_MS]


def _of_proxy(name: str, settings: Iterable[link.Setting]) -> admin.ServiceSettings:
    return admin.ServiceSettings(role=PROXY, name=name, settings=_settings(settings))


def _settings(settings: Iterable[link.Setting]) -> list[admin.Setting]:
    return [admin.Setting(name=one.name, value=one.value, source=one.source) for one in settings]
