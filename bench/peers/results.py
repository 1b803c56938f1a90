"""The results file, one JSON document, and the medians that the tables have."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from compare.failure import BenchFailure
from compare.record import save_document

FORMAT: Final = 1
Key = tuple[str, int, str]
"""System, number of client processes, row."""


@dataclass(frozen=True)
class Turn:
    """A row of a system in one round."""

    system: str
    processes: int
    row: str
    round: int
    messages: int
    seconds: float
    server_cpu_us: float
    client_cpu_us: float
    """Both per message, of all their processes."""
    p50_ms: float | None
    p99_ms: float | None
    confirmed: int
    """From here on of the whole turn, with its warm-up."""
    missing: int
    duplicates: int
    unconfirmed: int
    other_percent: float = 0.0
    """CPU time that other processes used in the window, percent of one core."""
    errors: dict[str, int] = field(default_factory=dict)

    @property
    def messages_per_s(self) -> float:
        return self.messages / self.seconds if self.seconds else 0.0


@dataclass
class PeerStart:
    """A start of a system; memory is anonymous, of all its server's processes."""

    system: str
    round: int
    startup_s: float
    """From its launch until a send is confirmed."""
    idle_mib: float
    loaded_mib: float | None = None
    """After the last row."""


@dataclass
class PeersRecord:
    started: str
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    starts: list[PeerStart] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def save(record: PeersRecord, path: Path) -> None:
    save_document({"peers_format": FORMAT, **asdict(record)}, path)


def load(path: Path) -> PeersRecord:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as failure:
        raise BenchFailure(f"{path} cannot be read: {failure}") from failure
    if found.pop("peers_format", None) != FORMAT:
        raise BenchFailure(f"{path} is no result of make bench-peers")
    turns = [Turn(**one) for one in found.pop("turns")]
    starts = [PeerStart(**one) for one in found.pop("starts")]
    return PeersRecord(**found, turns=turns, starts=starts)


@dataclass(frozen=True)
class Median:
    """Of one row of one system over the rounds."""

    messages_per_s: float
    lowest_per_s: float
    highest_per_s: float
    server_cpu_us: float
    client_cpu_us: float
    p50_ms: float | None
    p99_ms: float | None
    rates: Mapping[int, float]
    """Round → messages a second."""

    @property
    def spread(self) -> float:
        """Highest less lowest, as a share of the median."""
        width = self.highest_per_s - self.lowest_per_s
        return width / self.messages_per_s if self.messages_per_s else 0.0


@dataclass(frozen=True)
class StartMedian:
    startup_s: float
    idle_mib: float
    loaded_mib: float | None


def medians(turns: Iterable[Turn]) -> dict[Key, Median]:
    by_key: defaultdict[Key, list[Turn]] = defaultdict(list)
    for turn in turns:
        by_key[turn.system, turn.processes, turn.row].append(turn)
    return {key: _median(found) for key, found in by_key.items()}


def _median(turns: Sequence[Turn]) -> Median:
    rates = {turn.round: turn.messages_per_s for turn in turns}
    return Median(
        messages_per_s=median(rates.values()),
        lowest_per_s=min(rates.values()),
        highest_per_s=max(rates.values()),
        server_cpu_us=median(turn.server_cpu_us for turn in turns),
        client_cpu_us=median(turn.client_cpu_us for turn in turns),
        p50_ms=_known(turn.p50_ms for turn in turns),
        p99_ms=_known(turn.p99_ms for turn in turns),
        rates=rates,
    )


def _known(values: Iterable[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return median(found) if found else None


def start_medians(starts: Iterable[PeerStart]) -> dict[str, StartMedian]:
    by_system: defaultdict[str, list[PeerStart]] = defaultdict(list)
    for start in starts:
        by_system[start.system].append(start)
    return {
        system: StartMedian(
            median(one.startup_s for one in found),
            median(one.idle_mib for one in found),
            _known(one.loaded_mib for one in found),
        )
        for system, found in by_system.items()
    }


def rate_ratio(ours: Median | None, theirs: Median | None) -> float | None:
    """Messages a second, ours ÷ theirs: the median of the rounds' ratios."""
    if ours is None or theirs is None:
        return None
    shared = ours.rates.keys() & theirs.rates.keys()
    ratios = [ours.rates[at] / theirs.rates[at] for at in shared if theirs.rates[at]]
    return median(ratios) if ratios else None


def lost(turns: Iterable[Turn]) -> int:
    return sum(turn.missing for turn in turns)
