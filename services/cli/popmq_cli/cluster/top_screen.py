"""What `popmq top` shows: lines for a screen of so many columns and rows, made of one view."""

from collections.abc import Sequence
from typing import Final

from popmq_cli.shell.output import colored, table_lines
from popmq_common.words import counted
from popmq_readings.cluster_view import Service, View
from popmq_readings.cluster_warnings import ClusterWarning, Severity
from popmq_readings.short_numbers import (
    NONE,
    NumberText,
    bytes_text,
    clipped,
    count_text,
    percent_text,
    rate_text,
    up_text,
)
from popmq_readings.times import moment

WIDTH_DEFAULT: Final = 80
HEIGHT_MIN: Final = 20
_FIXED_LINES: Final = 7
"""Three headings, three blank lines, the last line."""
_NAME_MIN: Final = 10
_GAP: Final = 2
"""Between columns, as `table_lines` has it."""


def screen(
    view: View, found: Sequence[ClusterWarning], endpoint: str, width: int, height: int
) -> list[str]:
    """At most `height` lines of at most `width` characters, from 60 on; what is too much is left
    out: from the end of each table, and columns that matter least."""
    wrong = [warning for warning in found if warning.severity is Severity.WRONG]
    lines = _sums(view, endpoint, width)
    rows = max(HEIGHT_MIN, height) - _FIXED_LINES - len(lines) - bool(wrong)
    services = [one for one in view.services if one.role != "nameserver"][: max(2, rows // 3)]
    topics_max = max(2, (rows - len(services)) // 3)
    groups_max = max(2, rows - len(services) - min(topics_max, len(view.topics)))
    if wrong:
        more = f" (and {len(wrong) - 1} more: popmq cluster status)" if len(wrong) > 1 else ""
        lines.append(colored(clipped(f"✗ {wrong[0].what}{more}", width), "red"))
    lines += ["", *_groups(view, groups_max, width)]
    lines += ["", *_topics(view, topics_max, width)]
    lines += ["", *_services(services, width)]
    return lines[: max(height, 1)]


def _sums(view: View, endpoint: str, width: int) -> list[str]:
    look = view.look
    ready = sum(one.ready for one in view.groups)
    held = sum(one.in_flight for one in view.groups)
    timers = sum(answer.figures.timers for answer in view.brokers)
    delayed = timers + sum(one.delayed for one in view.groups)
    dead = sum(answer.figures.dead for answer in view.brokers)
    brokers = counted(len(look.brokers), "broker")
    proxies = counted(len(look.proxies), "proxy", "proxies")
    first = [f"PopMQ {endpoint}", f"{moment(look.now_ms)[:19]}Z", f"{brokers}, {proxies}"]
    second = [
        f"in {rate_text(view.in_s)}/s",
        f"out {rate_text(view.out_s)}/s",
        f"acked {rate_text(view.acked_s)}/s",
        f"ready {count_text(ready)}",
        f"held {count_text(held)}",
        f"delayed {count_text(delayed)}",
        f"dead {count_text(dead)}",
    ]
    return [*_wrapped(first, width), *_wrapped(second, width)]


def _wrapped(parts: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + _GAP + len(part) <= width:
            lines[-1] += " " * _GAP + part
        else:
            lines.append(clipped(part, width))
    return lines


def _fitted(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    least: Sequence[str],
    name_count: int = 1,
) -> list[str]:
    """The first columns are names, which are clipped; amounts are shown whole. Columns of `least`
    go, the first one first, until there is room for names."""
    shown = list(range(len(headings)))
    names = list(range(name_count))
    room = width
    for gone in ("", *least):
        shown = [i for i in shown if headings[i] != gone]
        amounts = [i for i in shown if i not in names]
        taken = [max([len(headings[i]), *(len(row[i]) for row in rows)]) for i in amounts]
        room = (width - sum(taken) - _GAP * (len(shown) - 1)) // len(names)
        if room >= max(_NAME_MIN, *(len(headings[i]) for i in names)):
            break
    room = max(room, _NAME_MIN)
    fitting = [[clipped(row[i], room) if i in names else row[i] for i in shown] for row in rows]
    return table_lines([headings[i] for i in shown], fitting)


def _groups(view: View, count_max: int, width: int) -> list[str]:
    """By lag. HELD: leased; WAITS: polls that wait for messages."""
    rows = [
        [
            one.group,
            one.topic,
            count_text(one.ready),
            count_text(one.in_flight),
            count_text(one.delayed + one.blocked),
            rate_text(one.out_s),
            rate_text(one.acked_s),
            count_text(one.waiting_polls),
        ]
        for one in view.groups[:count_max]
    ]
    headings = ["GROUP, BY LAG", "TOPIC", "READY", "HELD", "WAITS", "OUT/S", "ACK/S", "POLLS"]
    return _fitted(headings, rows, width, ["POLLS", "WAITS", "ACK/S"], name_count=2)


def _topics(view: View, count_max: int, width: int) -> list[str]:
    rows = [
        [one.topic, rate_text(one.in_s), count_text(one.stored)] for one in view.topics[:count_max]
    ]
    return _fitted(["TOPIC, BY RATE", "IN/S", "SINCE START"], rows, width, ["SINCE START"])


def _services(services: Sequence[Service], width: int) -> list[str]:
    """Brokers by load, then proxies; IN of a proxy are its calls, OUT those that failed."""
    rows: list[list[str]] = []
    for one in sorted(services, key=lambda one: (one.role, -(one.cpu or 0))):
        shown = one.name or f"proxy {one.address}"
        if one.failure:
            rows.append([shown, *[NumberText("down")] * 6])
            continue
        free = NONE
        if one.disk_total_bytes:
            free = percent_text(one.disk_free_bytes / one.disk_total_bytes)
        rows.append(
            [
                shown,
                percent_text(one.cpu),
                bytes_text(one.memory_bytes),
                free,
                rate_text(one.in_s),
                rate_text(one.out_s),
                up_text(one.up_ms),
            ]
        )
    headings = ["BROKERS, PROXIES", "CPU", "MEMORY", "DISK FREE", "IN/S", "OUT/S", "UP"]
    return _fitted(headings, rows, width, ["UP", "DISK FREE"])
