"""The command line: which curves, how long each point is measured."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from compare.failure import BenchFailure, status_of
from compare.page import put
from curves import delayed, loads
from curves.point import CurvePoint, document
from curves.report import svg, table
from extremes.command import ROOT, add_common_options, say, tools_of
from extremes.services import Services, services

PAGE = ROOT / "docs" / "performance" / "curves.md"
MIB = 1024 * 1024


class Curve(NamedTuple):
    unit: str
    values: tuple[int, ...]
    measure: Callable[[Services, Sequence[int], float], Iterator[CurvePoint]] | None
    """None: on an engine in this process."""


CURVES = {
    "size": Curve(
        "bytes of a body", (100, 1024, 10_240, 102_400, MIB, 2 * MIB, 4 * MIB), loads.sizes
    ),
    "topics": Curve("topics", (10, 100, 1_000, 10_000, 20_000), loads.many_topics),
    "groups": Curve("groups", (1, 10, 100, 1_000, 2_000), loads.many_groups),
    "clients": Curve("clients", (10, 100, 1_000, 5_000, 10_000), loads.many_clients),
    "backlog": Curve(
        "messages that wait", (50_000, 500_000, 5_000_000, 50_000_000), loads.backlogs
    ),
    "delayed": Curve("messages that wait", (1_000, 10_000, 100_000, 1_000_000, 10_000_000), None),
}
VARIABLES = {
    "POPMQ_BROKER_TOPICS_MAX": "30000",
    "POPMQ_BROKER_GROUPS_MAX": "30000",
    "POPMQ_PROXY_POLL_MS_MAX": "120000",
}
"""Limits of the servers that the curves would meet."""


def main(words: Sequence[str]) -> int:
    options = parser().parse_args(words)
    return status_of("curves", lambda: _main(options))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="curves", description="What a message costs, by how much.")
    made.add_argument("--only", default=",".join(CURVES), help="curves, separated by commas")
    made.add_argument("--values", help="others than the curve's own, separated by commas")
    made.add_argument("--seconds", type=float, default=8.0, help="measured, for each point")
    made.add_argument("--json", action="store_true", help="print one JSON document")
    made.add_argument("--write", action="store_true", help="into docs/performance/curves.md")
    add_common_options(made)
    return made


def _main(options: argparse.Namespace) -> int:
    names = options.only.split(",")
    for name in names:
        if name not in CURVES:
            raise BenchFailure(f"no curve {name}; there are {', '.join(CURVES)}")
    found = {name: _measured(name, options) for name in names}
    if options.json:
        told = {name: [document(one) for one in points] for name, points in found.items()}
        print(json.dumps(told, indent=2))
    for name, points in found.items():
        if options.write:
            page = PAGE.read_text(encoding="utf-8")
            text = table(CURVES[name].unit, points)
            PAGE.write_text(put(page, name, text), encoding="utf-8")
            picture = PAGE.with_name(f"curve-{name}.svg")
            picture.write_text(svg(CURVES[name].unit, points), encoding="utf-8")
    return 0


def _measured(name: str, options: argparse.Namespace) -> list[CurvePoint]:
    curve = CURVES[name]
    values = curve.values
    if options.values is not None:
        values = tuple(int(one) for one in options.values.split(","))
    work, found = options.work.absolute(), []
    if curve.measure is None:
        for point in delayed.waiting(work, values):
            found.append(_told(name, point))
        return found
    with services(tools_of(options), work, options.front, VARIABLES) as server:
        server.start()
        for point in curve.measure(server, values, options.seconds):
            found.append(_told(name, point))
    return found


def _told(name: str, point: CurvePoint) -> CurvePoint:
    say(
        f"{name} {point.value:,}: {point.messages_per_s:,.0f} messages/s, {point.cpu_us:.0f} µs, "
        f"{point.memory_mib:.0f} MiB, others {point.other_percent:.0f} %"
    )
    return point
