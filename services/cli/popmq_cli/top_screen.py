"""What `popmq top` shows: lines for a screen of so many columns and rows, made of one view."""

from collections.abc import Sequence
from typing import Final

from popmq_cli.amounts import (
    NONE,
    bytes_text,
    clipped,
    count_text,
    percent_text,
    rate_text,
    up_text,
)
from popmq_cli.cluster_remarks import Remark, Severity
from popmq_cli.cluster_view import Service, View
from popmq_cli.output import colored, table_lines
from popmq_cli.times import moment

WIDTH_MIN: Final = 80
HEIGHT_MIN: Final = 20
_FIXED_LINES: Final = 9
"""Two lines of sums, three headings, three blank lines, the last line."""
_NUMBER_COLUMNS: Final = {"groups": 52, "services": 54, "topics": 24}
"""What the columns behind the names take, in each table."""
_NAME_MIN: Final = 12


def screen(
    view: View, found: Sequence[Remark], endpoint: str, width: int, height: int
) -> list[str]:
    """At most `height` lines; what is too much is left out from the end of each table."""
    wrong = [remark for remark in found if remark.severity is Severity.WRONG]
    rows = max(HEIGHT_MIN, height) - _FIXED_LINES - bool(wrong)
    services = [one for one in view.services if one.role != "nameserver"][: max(2, rows // 3)]
    topics_max = max(2, (rows - len(services)) // 3)
    groups_max = max(2, rows - len(services) - min(topics_max, len(view.topics)))
    lines = _sums(view, endpoint)
    if wrong:
        more = f" (and {len(wrong) - 1} more: popmq cluster status)" if len(wrong) > 1 else ""
        lines.append(colored(clipped(f"✗ {wrong[0].what}{more}", width), "red"))
    lines += ["", *_groups(view, groups_max, width)]
    lines += ["", *_topics(view, topics_max, width)]
    lines += ["", *_services(services, width)]
    return lines[: max(height, 1)]


def _sums(view: View, endpoint: str) -> list[str]:
    look = view.look
    ready = sum(one.ready for one in view.groups)
    held = sum(one.in_flight for one in view.groups)
    timers = sum(answer.figures.timers for answer in view.brokers)
    delayed = timers + sum(one.delayed for one in view.groups)
    dead = sum(answer.figures.dead for answer in view.brokers)
    first = f"PopMQ {endpoint}  {moment(look.now_ms)[:19]}  "
    first += f"{len(look.brokers)} brokers, {len(look.proxies)} proxies"
    second = f"in {rate_text(view.in_s)}/s  out {rate_text(view.out_s)}/s  "
    second += f"acked {rate_text(view.acked_s)}/s  ready {count_text(ready)}  "
    second += f"held {count_text(held)}  delayed {count_text(delayed)}  dead {count_text(dead)}"
    return [first, second]


def _groups(view: View, count_max: int, width: int) -> list[str]:
    """By lag. HELD: leased; WAITS: polls that wait for messages."""
    name = max(_NAME_MIN, (width - _NUMBER_COLUMNS["groups"]) // 2)
    rows = [
        [
            clipped(one.group, name),
            clipped(one.topic, name),
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
    return table_lines(headings, rows)


def _topics(view: View, count_max: int, width: int) -> list[str]:
    name = max(_NAME_MIN, width - _NUMBER_COLUMNS["topics"])
    rows = [
        [clipped(one.topic, name), rate_text(one.in_s), count_text(one.stored)]
        for one in view.topics[:count_max]
    ]
    return table_lines(["TOPIC, BY RATE", "IN/S", "SINCE START"], rows)


def _services(services: Sequence[Service], width: int) -> list[str]:
    """Brokers by load, then proxies; IN of a proxy are its calls, OUT those that failed."""
    name = max(_NAME_MIN, width - _NUMBER_COLUMNS["services"])
    rows = []
    for one in sorted(services, key=lambda one: (one.role, -(one.cpu or 0))):
        shown = clipped(one.name or f"proxy {one.address}", name)
        if one.failure:
            rows.append([shown, *["down"] * 6])
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
    return table_lines(headings, rows)
