"""popmq.admin.v1 ListAuditLines: changes and refusals at every proxy, newest first.

Each proxy remembers its last lines since its start, and leaves them with the brokers. The lasting
record is its file (POPMQ_PROXY_AUDIT_LOG).
"""

import asyncio
from typing import Final

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.errors import BadRequest, PopMQError
from popmq_common.link.audit_lines import newest
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.rpc.admin.cluster import ClusterHandler
from popmq_proxy.rpc.shared.context import CallContext, Upstream
from popmq_proxy.rpc.shared.proxy_report import TIMEOUT_MS, ProxyReporter

COUNT_DEFAULT: Final = 100
COUNT_MAX: Final = 1_000
KINDS: Final = ("", "refused", "change")


class AuditLinesHandler:
    def __init__(
        self, upstream: Upstream, cluster: ClusterHandler, reporter: ProxyReporter
    ) -> None:
        self._upstream = upstream
        self._cluster = cluster
        self._reporter = reporter

    async def list_all(
        self, ctx: CallContext, request: admin.ListAuditLinesRequest
    ) -> admin.ListAuditLinesResponse:
        """Which brokers do not tell is in the answer. Raises `BadRequest`, `NoBroker`,
        `NameserverDown`."""
        count = request.count_max or COUNT_DEFAULT
        if not 0 < count <= COUNT_MAX:
            raise BadRequest(reason=f"{count} lines, at most {COUNT_MAX} by one request")
        if request.what not in KINDS:
            raise BadRequest(reason=f"{request.what!r} is no kind of line: refused, change")
        wanted = link.WantedLines(
            what=request.what, text=request.text, before_ms=request.before_ms, count_max=count
        )
        names = await self._upstream.registered()
        replies = await asyncio.gather(*(self._ask(name, wanted) for name in names))
        silent = [name for name, reply in zip(names, replies, strict=True) if reply is None]
        told = [reply for reply in replies if reply is not None]
        own = [self._own_line(line) for line in self._reporter.tail.lines()]
        found, more = newest([*own, *_others(told, self._cluster.own_id)], wanted)
        proxies = self._proxies(told)
        names_by_id = {self._cluster.own_id: self._cluster.own_name}
        names_by_id |= {one.id: one.name for reply in told for one in reply.proxies}
        return admin.ListAuditLinesResponse(
            lines=[_told(line, names_by_id.get(line.proxy, line.proxy)) for line in found],
            more=more or any(reply.more for reply in told),
            proxies=proxies,
            silent_brokers=silent,
        )

    async def _ask(self, broker: str, wanted: link.WantedLines) -> link.ProxiesReply | None:
        """None: it does not answer, or is older."""
        call = link.Call(show_proxies=link.ShowProxies(lines=wanted))
        try:
            return (await self._upstream.call(broker, call, TIMEOUT_MS)).proxies
        except PopMQError:
            return None

    def _own_line(self, line: link.AuditLine) -> link.AuditLine:
        own = link.AuditLine()
        own.CopyFrom(line)
        own.proxy = self._cluster.own_id
        return own

    def _proxies(self, told: list[link.ProxiesReply]) -> list[admin.AuditedProxy]:
        """This one first, the others by name; of several brokers' words the newest."""
        tail = self._reporter.tail
        own = admin.AuditedProxy(
            name=self._cluster.own_name,
            started_ms=self._reporter.started_ms,
            lines=tail.written,
            left_out=tail.left_out,
        )
        heard: dict[str, link.KnownProxy] = {}
        for one in [one for reply in told for one in reply.proxies]:
            known = heard.get(one.id)
            if one.id != self._cluster.own_id and (
                known is None or one.silent_ms < known.silent_ms
            ):
                heard[one.id] = one
        others = [
            admin.AuditedProxy(
                name=one.name,
                started_ms=one.started_ms,
                lines=one.lines,
                left_out=one.left_out,
                silent_ms=max(1, one.silent_ms),
            )
            for one in sorted(heard.values(), key=lambda one: (one.name, one.id))
        ]
        return [own, *others]


def _others(told: list[link.ProxiesReply], own_id: str) -> list[link.AuditLine]:
    """Each line once, though every broker has it. Those of this proxy's id are its own, or of an
    earlier process that had the same."""
    found = {
        (line.proxy, line.number, line.at_ms): line
        for reply in told
        for line in reply.lines
        if line.proxy != own_id
    }
    return list(found.values())


def _told(line: link.AuditLine, proxy: str) -> admin.AuditLine:
    return admin.AuditLine(
        at_ms=line.at_ms,
        what=line.what,
        user=line.user,
        address=line.address,
        call=line.call,
        resource=line.resource,
        outcome=line.outcome,
        target=line.target,
        count=line.count,
        proxy=proxy,
    )
