"""Where a peer did better than every PopMQ that was measured, in words."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from peers.results import Key, Median, StartMedian, rate_ratio
from peers.systems import LOADS, SYSTEMS

T = TypeVar("T")

FROM: Final = 1.05
"""A smaller difference is none."""


def weaknesses(found: Mapping[Key, Median], starts: Mapping[str, StartMedian]) -> list[str]:
    """One line for each row and measure: the best PopMQ beside each peer that was better."""
    lines = []
    for count, row in dict.fromkeys((count, row) for _, count, row in found):
        here = {key[0]: one for key, one in found.items() if key[1:] == (count, row)}
        clients = "1 client process" if count == 1 else f"{count} client processes"
        lines += [f"{LOADS[row].title}, {clients}: {text}" for text in _of_row(row, here)]
    return [*lines, *_of_starts(starts)]


def _of_row(row: str, here: Mapping[str, Median]) -> list[str]:
    ours, peers = _sides(here)
    if not ours:
        return []
    lines: list[str] = []
    if not LOADS[row].rate_per_s:
        ratios = {
            system: max(rate_ratio(mine, one) or 0.0 for mine in ours)
            for system, one in peers.items()
        }
        lines += _named("throughput", {name: one for name, one in ratios.items() if one * FROM < 1})
    lines += _less("server CPU", "server_cpu_us", ours, peers)
    lines += _less("client CPU", "client_cpu_us", ours, peers)
    if LOADS[row].has_latency:
        lines += _less("p50", "p50_ms", ours, peers)
        lines += _less("p99", "p99_ms", ours, peers)
    return lines


def _of_starts(starts: Mapping[str, StartMedian]) -> list[str]:
    ours, peers = _sides(starts)
    return [
        *_less("time to start", "startup_s", ours, peers),
        *_less("memory after the start", "idle_mib", ours, peers),
        *_less("memory after all rows", "loaded_mib", ours, peers),
    ]


def _sides(here: Mapping[str, T]) -> tuple[list[T], dict[str, T]]:
    ours = [one for system, one in here.items() if SYSTEMS[system].is_ours]
    return ours, {system: one for system, one in here.items() if not SYSTEMS[system].is_ours}


def _less(
    measure: str, name: str, ours: Iterable[object], peers: Mapping[str, object]
) -> list[str]:
    """Of a measure that shall be small."""
    known = [value for one in ours if (value := getattr(one, name)) is not None]
    if not known:
        return []
    ratios = {
        system: min(known) / value for system, one in peers.items() if (value := getattr(one, name))
    }
    return _named(measure, {system: one for system, one in ratios.items() if one > FROM})


def _named(measure: str, ratios: Mapping[str, float]) -> list[str]:
    parts = [f"{SYSTEMS[system].title} (PopMQ {one:.2f}×)" for system, one in ratios.items()]
    return [f"{measure}: {', '.join(parts)}"] if parts else []
