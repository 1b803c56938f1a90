"""From the results file to what the tables say: medians over rounds, ratios, targets."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

from compare.load import Figures, figures
from compare.record import Record
from compare.systems import ALONE_PAIRS, CLUSTER_PAIRS, Case, Pair
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
    runs: dict[tuple[Case, str], list[Figures]] = {}
    failures = []
    for run in record.rows:
        case = Case(run.system, run.flush)
        if run.report is None:
            told = " ".join((run.error or "").split())[:FAILURE_COLUMNS_MAX]
            failures.append(f"{case}, {run.row}, round {run.round}: {told}")
            continue
        measured = figures(run.report, ROWS[run.row].latency)
        runs.setdefault((case, run.row), []).append(measured)
    cases = dict.fromkeys(Case(start.system, start.flush) for start in record.starts)
    return Summary(
        rows={key: row_summary(list_of) for key, list_of in runs.items()},
        starts={case: _start_summary(record, case) for case in cases},
        failures=failures,
    )


def row_summary(runs: list[Figures]) -> RowSummary:
    """`runs` has one entry per round, at least one."""
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

ROW_MEASURES: dict[str, Callable[[RowSummary], float | None]] = {
    "throughput": lambda row: row.messages_per_s,
    "CPU": lambda row: row.server_cpu_us,
    "p50": lambda row: row.p50_ms,
    "p99": lambda row: row.p99_ms,
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
    """One for each target, measured or not."""
    return [Verdict(target, _target_ratio(summary, target)) for target in TARGETS]


def _target_ratio(summary: Summary, target: Target) -> float | None:
    values = [
        _value(summary, Case(system, "sync"), target)
        for system in (target.pair.ours, target.pair.theirs)
    ]
    return ratio(values[0], values[1])


def _value(summary: Summary, case: Case, target: Target) -> float | None:
    if target.row is None:
        start = summary.starts.get(case)
        return START_MEASURES[target.measure](start) if start else None
    row = summary.rows.get((case, target.row))
    return ROW_MEASURES[target.measure](row) if row else None
