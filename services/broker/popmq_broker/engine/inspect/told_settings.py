"""Which settings this broker has, and what set each; what proxies left here for each other."""

from typing import Final

from popmq_broker.core.catalog.proxy_reports import ProxyReports
from popmq_broker.engine.journal.runtime import Runtime
from popmq_common.errors import BadRequest
from popmq_common.process.settings_in_force import settings_in_force
from popmq_internal.v1 import link_pb2 as link

PREFIX: Final = "POPMQ_BROKER_"
LINES_ASKED_MAX: Final = 1_001


class ToldSettings:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._reports = ProxyReports()

    async def settings(self, _: link.ShowSettings) -> link.SettingsReply:
        found = settings_in_force(self._runtime.config, PREFIX)
        return link.SettingsReply(settings=[link.Setting(**one._asdict()) for one in found])

    async def report(self, request: link.ProxyReport) -> link.ProxyReportReply:
        """Raises `BadRequest`."""
        return self._reports.heard(request, self._runtime.clock.now_ms())

    async def proxies(self, request: link.ShowProxies) -> link.ProxiesReply:
        """Raises `BadRequest`."""
        if not 0 <= request.lines.count_max <= LINES_ASKED_MAX:
            reason = f"{request.lines.count_max} lines, at most {LINES_ASKED_MAX} by one request"
            raise BadRequest(reason=reason)
        return self._reports.shown(request, self._runtime.clock.now_ms())
