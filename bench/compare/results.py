"""From the results file to what the tables say: medians over rounds, ratios, targets."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from compare.load import Figures, figures
from compare.record import Record
from compare.systems import ALONE_PAIRS, CLUSTER_PAIRS, SIGNED_PAIRS, Case, Pair
from compare.workloads import ROWS

OTHER_PERCENT_MAX = 10.0
"""With more than this much of a core used by other processes a run is called noisy."""

FAILURE_COLUMNS_MAX = 300


@dataclass(frozen=True)
class RowSummary:
    """Medians over the rounds of one row of one case."""

    rounds: int
    messages_per_s: float
    lowest_per_s: float
    highest_per_s: float
    server_cpu_us: float
    """Microseconds per message, all server processes."""
    cpu_us: dict[str, float]
    """The same by process, the load generator's too."""
    p50_ms: float | None
    p99_ms: float | None
    other_percent: float
    """The noisiest round's, percent of one core."""
    missing: int
    duplicates: int
    errors: dict[str, int]
    """Sums over the rounds."""
    by_round: dict[int, Figures]

    @property
    def spread(self) -> float:
        """Width of the throughputs over the rounds, as a share of their median."""
        return (self.highest_per_s - self.lowest_per_s) / self.messages_per_s


@dataclass(frozen=True)
class StartSummary:
    """Medians over the starts of one case; MiB and seconds."""

    startup_s: float
    idle_anonymous_mib: float
    loaded_anonymous_mib: float | None
    loaded_total_mib: float | None


@dataclass(frozen=True)
class Summary:
    rows: dict[tuple[Case, str], RowSummary]
    starts: dict[Case, StartSummary]
    failures: list[str]
    """Rows that could not be run, as text."""

    def cases(self) -> list[Case]:
        seen = dict.fromkeys([*self.starts, *(case for case, _ in self.rows)])
        return list(seen)


def summarize(record: Record) -> Summary:
    runs: dict[tuple[Case, str], dict[int, Figures]] = {}
    failures = []
    for run in record.rows:
        case = Case(run.system, run.flush)
        if run.report is None:
            told = " ".join((run.error or "").split())[:FAILURE_COLUMNS_MAX]
            failures.append(f"{case}, {run.row}, round {run.round}: {told}")
            continue
        measured = figures(run.report, ROWS[run.row].latency)
        runs.setdefault((case, run.row), {})[run.round] = measured
    cases = dict.fromkeys(Case(start.system, start.flush) for start in record.starts)
    return Summary(
        rows={key: row_summary(by_round) for key, by_round in runs.items()},
        starts={case: _start_summary(record, case) for case in cases},
        failures=failures,
    )


def row_summary(by_round: dict[int, Figures]) -> RowSummary:
    """Of at least one round."""
    runs = list(by_round.values())
    rates = [run.messages_per_s for run in runs]
    names = dict.fromkeys(name for run in runs for name in run.cpu_us)
    latencies = [run.latency for run in runs if run.latency]
    codes = dict.fromkeys(code for run in runs for code in run.errors)
    return RowSummary(
        rounds=len(runs),
        messages_per_s=median(rates),
        lowest_per_s=min(rates),
        highest_per_s=max(rates),
        server_cpu_us=median(run.server_cpu_us for run in runs),
        cpu_us={name: median(run.cpu_us.get(name, 0.0) for run in runs) for name in names},
        p50_ms=_median_or_none(latency.p50_ms for latency in latencies),
        p99_ms=_median_or_none(latency.p99_ms for latency in latencies),
        other_percent=max(run.other_percent for run in runs),
        missing=sum(run.missing for run in runs),
        duplicates=sum(run.duplicates for run in runs),
        errors={code: sum(run.errors.get(code, 0) for run in runs) for code in codes},
        by_round=by_round,
    )


def _start_summary(record: Record, case: Case) -> StartSummary:
    starts = [start for start in record.starts if Case(start.system, start.flush) == case]
    loaded = [start.loaded.values() for start in starts if start.loaded]
    return StartSummary(
        startup_s=median(start.startup_s for start in starts),
        idle_anonymous_mib=median(
            sum(memory.anonymous_mib for memory in start.idle.values()) for start in starts
        ),
        loaded_anonymous_mib=_median_or_none(
            sum(memory.anonymous_mib for memory in memories) for memories in loaded
        ),
        loaded_total_mib=_median_or_none(
            sum(memory.total_mib for memory in memories) for memories in loaded
        ),
    )


def _median_or_none(values: Iterable[float]) -> float | None:
    found = list(values)
    return median(found) if found else None


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """ours ÷ theirs; None when one is unknown or theirs is 0."""
    return ours / theirs if ours is not None and theirs else None


@dataclass(frozen=True)
class Target:
    """What a figure of ours ÷ theirs shall be, in sync flush."""

    pair: Pair
    row: str | None
    """None: a figure of the start, not of a row."""
    measure: str
    bound: float
    at_least: bool


def _cluster_targets(pair: Pair) -> list[Target]:
    rows = [
        # row, least throughput ratio, greatest CPU ratio
        ("send-16", 2.0, 0.5),
        ("send-128", 2.0, 0.5),
        ("send-512", 1.7, 0.5),
        ("send-batch", 1.2, 0.9),
        ("receive", 2.5, 0.4),
        ("e2e", 2.0, 0.5),
    ]
    found = [Target(pair, "send-1", "p50", 1.0, at_least=False)]
    for row, rate, cpu in rows:
        found.append(Target(pair, row, "throughput", rate, at_least=True))
        found.append(Target(pair, row, "CPU", cpu, at_least=False))
    return [
        *found,
        Target(pair, "e2e-1000", "p99", 0.25, at_least=False),
        Target(pair, "e2e-1000", "CPU", 0.4, at_least=False),
        Target(pair, None, "memory", 0.25, at_least=False),
        Target(pair, None, "start-up", 0.33, at_least=False),
    ]


def _alone_targets(pair: Pair) -> list[Target]:
    return [
        Target(pair, "send-128", "throughput", 1.0, at_least=True),
        Target(pair, "receive", "throughput", 1.5, at_least=True),
    ]


TARGETS = (
    *(target for pair in CLUSTER_PAIRS for target in _cluster_targets(pair)),
    *(target for pair in ALONE_PAIRS for target in _alone_targets(pair)),
)
SIGNED_TARGETS = tuple(
    Target(pair, row, "CPU", 1.03, at_least=False) for pair in SIGNED_PAIRS for row in ROWS
)

MEASURES: dict[str, Callable[[Figures], float | None]] = {
    "throughput": lambda run: run.messages_per_s,
    "CPU": lambda run: run.server_cpu_us,
    "p50": lambda run: run.latency.p50_ms if run.latency else None,
    "p99": lambda run: run.latency.p99_ms if run.latency else None,
}
START_MEASURES: dict[str, Callable[[StartSummary], float | None]] = {
    "memory": lambda start: start.loaded_anonymous_mib,
    "start-up": lambda start: start.startup_s,
}


@dataclass(frozen=True)
class Verdict:
    target: Target
    ratio: float | None

    @property
    def met(self) -> bool | None:
        """None: not measured."""
        if self.ratio is None:
            return None
        bound = self.target.bound
        return self.ratio >= bound if self.target.at_least else self.ratio <= bound


def verdicts(summary: Summary) -> list[Verdict]:
    """One for each target, measured or not; those of signed calls only if some were."""
    ran = {case.system for case in summary.cases()}
    targets = [*TARGETS, *(of for of in SIGNED_TARGETS if of.pair.ours in ran)]
    return [Verdict(target, _target_ratio(summary, target)) for target in targets]


def row_ratio(ours: RowSummary | None, theirs: RowSummary | None, measure: str) -> float | None:
    """Median of the rounds' ratios: within a round both ran within a minute or two, and what
    slowed one slowed the other."""
    if ours is None or theirs is None:
        return None
    of = MEASURES[measure]
    shared = [number for number in ours.by_round if number in theirs.by_round]
    ratios = [ratio(of(ours.by_round[n]), of(theirs.by_round[n])) for n in shared]
    return _median_or_none(one for one in ratios if one is not None)


def _target_ratio(summary: Summary, target: Target) -> float | None:
    ours, theirs = Case(target.pair.ours, "sync"), Case(target.pair.theirs, "sync")
    if target.row is not None:
        rows = summary.rows.get((ours, target.row)), summary.rows.get((theirs, target.row))
        return row_ratio(*rows, target.measure)
    starts = summary.starts.get(ours), summary.starts.get(theirs)
    if starts[0] is None or starts[1] is None:
        return None
    of = START_MEASURES[target.measure]
    return ratio(of(starts[0]), of(starts[1]))
