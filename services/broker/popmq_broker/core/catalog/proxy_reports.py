"""What proxies left here for each other: their settings, and the last lines of their audit trails.

Proxies do not know each other, and each keeps its lines in its own memory. So each tells every
broker, and whichever proxy is asked asks the brokers. A broker that starts has nothing and says so;
the proxies tell it again.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from popmq_common.errors import BadRequest
from popmq_common.link.audit_lines import newest
from popmq_internal.v1 import link_pb2 as link

PROXIES_MAX: Final = 256
"""Who was silent longest is forgotten first."""
SILENT_MS_MAX: Final = 3_600_000
"""After that a proxy is forgotten with its lines."""
LINES_EACH_MAX: Final = 500
LINES_MAX: Final = 10_000
"""Of all proxies; where they are many, each has its share."""
REPORT_LINES_MAX: Final = 100
REPORT_SETTINGS_MAX: Final = 500
NUMBER_MAX: Final = 1 << 62
TEXT_CHARS_MAX: Final = 4_096
"""Of one field: a line has some 300, the value of a setting may be a list of nameservers."""


@dataclass(slots=True)
class _Known:
    name: str
    started_ms: int
    heard_ms: int
    settings: Sequence[link.Setting] = ()
    lines: deque[link.AuditLine] = field(default_factory=deque)
    next_line: int = 0


class ProxyReports:
    def __init__(self) -> None:
        self._known: OrderedDict[str, _Known] = OrderedDict()
        """By id; who was heard last is the last."""

    def heard(self, report: link.ProxyReport, now_ms: int) -> link.ProxyReportReply:
        """Raises `BadRequest`, and then nothing of it is kept."""
        _check(report)
        known = self._known.get(report.id)
        if known is None or known.started_ms != report.started_ms:
            known = self._known[report.id] = _Known(report.name, report.started_ms, now_ms)
        self._known.move_to_end(report.id)
        if len(self._known) > PROXIES_MAX:
            self._known.popitem(last=False)
        known.heard_ms = now_ms
        known.settings = list(report.settings) or known.settings
        for line in report.lines:
            if line.number >= known.next_line:
                line.proxy = report.id
                known.lines.append(line)
                known.next_line = line.number + 1
        share = min(LINES_EACH_MAX, LINES_MAX // len(self._known))
        while len(known.lines) > share:
            known.lines.popleft()
        return link.ProxyReportReply(knows_settings=bool(known.settings), next_line=known.next_line)

    def shown(self, request: link.ShowProxies, now_ms: int) -> link.ProxiesReply:
        for name in [
            name for name, one in self._known.items() if now_ms - one.heard_ms > SILENT_MS_MAX
        ]:
            del self._known[name]
        proxies = [
            link.KnownProxy(
                id=name,
                name=one.name,
                started_ms=one.started_ms,
                silent_ms=max(0, now_ms - one.heard_ms),
                lines=one.next_line,
                left_out=one.next_line - len(one.lines),
                settings=one.settings if request.settings else (),
            )
            for name, one in sorted(self._known.items())
        ]
        if not request.lines.count_max:
            return link.ProxiesReply(proxies=proxies)
        lines = (line for one in self._known.values() for line in one.lines)
        found, more = newest(lines, request.lines)
        return link.ProxiesReply(proxies=proxies, lines=found, more=more)


def _check(report: link.ProxyReport) -> None:
    if not report.id:
        raise BadRequest(reason="a proxy's report without its id")
    if len(report.lines) > REPORT_LINES_MAX or len(report.settings) > REPORT_SETTINGS_MAX:
        most = f"at most {REPORT_LINES_MAX} lines and {REPORT_SETTINGS_MAX} settings by one call"
        raise BadRequest(reason=f"a proxy's report is too long: {most}")
    if any(not 0 <= line.number < NUMBER_MAX for line in report.lines):
        raise BadRequest(reason="a proxy's report has a line with a number that no line has")
    for part in [report, *report.lines, *report.settings]:
        for described, value in part.ListFields():
            if described.name != "lines" and described.name != "settings":
                _check_text(described.name, value)


def _check_text(name: str, value: object) -> None:
    if isinstance(value, str) and len(value) > TEXT_CHARS_MAX:
        reason = f"{name} of a proxy's report has {len(value)} characters"
        raise BadRequest(reason=f"{reason}, at most {TEXT_CHARS_MAX}")
