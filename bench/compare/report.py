"""The results as Markdown: for each pair loads, processes, memory and start; then the targets."""

from collections.abc import Sequence

from compare.record import Record
from compare.results import (
    OTHER_PERCENT_MAX,
    RowSummary,
    StartSummary,
    Summary,
    Target,
    Verdict,
    ratio,
    row_ratio,
)
from compare.systems import FLUSHES, PAIRS, SYSTEMS, Case, Pair
from compare.workloads import ROWS

NONE = "–"


def document(record: Record, summary: Summary, verdicts: Sequence[Verdict]) -> str:
    """The whole page."""
    parts = [_head(record)]
    for flush in FLUSHES:
        for pair in PAIRS:
            ours, theirs = Case(pair.ours, flush), Case(pair.theirs, flush)
            if {ours, theirs} <= set(summary.cases()):
                parts.append(_pair(pair, ours, theirs, summary))
    parts += [_lone_cases(summary), _targets(verdicts), _remarks(summary)]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column to the left, the others to the right."""
    marks = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, marks, *rows])


def number(value: float | None) -> str:
    """Three digits that count, thousands with commas."""
    if value is None:
        return NONE
    if value >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def times(value: float | None) -> str:
    """A ratio of ours to theirs."""
    return NONE if value is None else f"{value:.2f}×"


def _head(record: Record) -> str:
    machine, settings, versions = record.machine, record.settings, record.versions
    lines = [
        "# PopMQ and Apache RocketMQ",
        "",
        f"Measured {record.started[:10]} on {machine['cores']} cores"
        f" ({machine['processor']}), {machine['memory_gib']} GiB;"
        " servers and load generator share them."
        f" PopMQ {versions.get('popmq', NONE)}, Apache RocketMQ {versions.get('rocketmq', NONE)}"
        f" ({versions.get('java', 'no Java')}); {versions.get('python', 'Python unknown')}.",
        "",
        f"Bodies of 1 KiB, plaintext, NORMAL topics of 8 queues. Medians of {settings['rounds']}"
        f" rounds; the systems take turns at each load, {settings['seconds']:g} s long; after"
        f" {settings['warmup_jvm_s']:g} s (JVM) or {settings['warmup_popmq_s']:g} s (PopMQ) of load"
        " after each start. Ratios are PopMQ ÷ RocketMQ of one round, their median. CPU is that of"
        " all server processes together. Only ratios carry over to another machine.",
    ]
    return "\n".join(lines)


def _pair(pair: Pair, ours: Case, theirs: Case, summary: Summary) -> str:
    parts = [
        f"## {pair.title}, {ours.flush} flush",
        _loads(pair.heads, ours, theirs, summary),
        "CPU by process, µs per message:",
        _processes([ours, theirs], summary),
    ]
    starts = summary.starts.get(ours), summary.starts.get(theirs)
    if starts[0] and starts[1]:
        parts.append(_starts(pair.heads, starts[0], starts[1]))
    return "\n\n".join(parts)


def _loads(names: tuple[str, str], ours: Case, theirs: Case, summary: Summary) -> str:
    heads = ["load"]
    for measure in ("msg/s", "CPU µs/msg", "p50 ms", "p99 ms"):
        heads += [f"{measure} {names[0]}", names[1], "ratio"]
    heads.append("spread")
    rows = []
    for row in ROWS.values():
        mine, other = summary.rows.get((ours, row.name)), summary.rows.get((theirs, row.name))
        if mine or other:
            rows.append([row.title, *_load_cells(mine, other)])
    return table(heads, rows)


def _load_cells(mine: RowSummary | None, other: RowSummary | None) -> list[str]:
    """Three cells for each measure, and the larger spread of the two."""
    cells: list[str] = []
    for name, measure in (
        ("messages_per_s", "throughput"),
        ("server_cpu_us", "CPU"),
        ("p50_ms", "p50"),
        ("p99_ms", "p99"),
    ):
        values = [getattr(side, name) if side else None for side in (mine, other)]
        cells += [number(values[0]), number(values[1]), times(row_ratio(mine, other, measure))]
    spread = max(side.spread for side in (mine, other) if side)
    return [*cells, f"{spread:.0%}"]


def _processes(cases: Sequence[Case], summary: Summary) -> str:
    """A row for each load and case, a column for each process."""
    shown = [
        (row, case, summary.rows[case, row.name])
        for row in ROWS.values()
        for case in cases
        if (case, row.name) in summary.rows
    ]
    names = sorted({name for _, _, measured in shown for name in measured.cpu_us})
    rows = [
        [
            f"{row.title}, {case.system}",
            *(number(measured.cpu_us.get(name)) for name in names),
            f"{measured.other_percent:.0f} %",
        ]
        for row, case, measured in shown
    ]
    return table(["load", *names, "others, of a core"], rows)


def _starts(names: tuple[str, str], ours: StartSummary, theirs: StartSummary) -> str:
    rows = []
    for title, name in (
        ("start to first confirmed send, s", "startup_s"),
        ("resident memory after the start, MiB", "idle_anonymous_mib"),
        ("resident memory after all loads, MiB", "loaded_anonymous_mib"),
        ("the same with mapped files, MiB", "loaded_total_mib"),
    ):
        values = getattr(ours, name), getattr(theirs, name)
        rows.append([title, number(values[0]), number(values[1]), times(ratio(*values))])
    return table(["", *names, "ratio"], rows)


def _lone_cases(summary: Summary) -> str:
    """Cases that were measured without their peer."""
    cases = set(summary.cases())
    paired = {
        Case(system, flush)
        for flush in FLUSHES
        for pair in PAIRS
        for system in (pair.ours, pair.theirs)
        if {Case(pair.ours, flush), Case(pair.theirs, flush)} <= cases
    }
    parts = []
    for case in summary.cases():
        if case in paired:
            continue
        rows = [
            [
                ROWS[name].title,
                *map(number, (row.messages_per_s, row.server_cpu_us, row.p50_ms, row.p99_ms)),
            ]
            for (of, name), row in summary.rows.items()
            if of == case
        ]
        heads = ["load", "msg/s", "CPU µs/msg", "p50 ms", "p99 ms"]
        title = SYSTEMS[case.system].title
        parts.append(f"## {title}, {case.flush} flush\n\n{table(heads, rows)}")
    return "\n\n".join(parts)


def _targets(verdicts: Sequence[Verdict]) -> str:
    words = {True: "met", False: "**not met**", None: "not measured"}
    rows = []
    for verdict in verdicts:
        target = verdict.target
        sign = "≥" if target.at_least else "≤"
        cells = [target_title(target), f"{sign} {target.bound:g}×", times(verdict.ratio)]
        rows.append([*cells, words[verdict.met]])
    return "## Targets, sync flush\n\n" + table(["", "target", "measured", ""], rows)


def target_title(target: Target) -> str:
    load = f"{ROWS[target.row].title}: " if target.row else ""
    return f"{load}{target.measure} ({target.pair.title.lower()})"


def _remarks(summary: Summary) -> str:
    lines = []
    for (case, name), row in summary.rows.items():
        where = f"{case}, {ROWS[name].title}"
        if row.other_percent > OTHER_PERCENT_MAX:
            lines.append(
                f"- {where}: noisy, other processes used {row.other_percent:.0f} % of a core."
            )
        if row.missing or row.duplicates:
            lines.append(f"- {where}: {row.missing:,} missing, {row.duplicates:,} duplicates.")
        for code, count in row.errors.items():
            lines.append(f"- {where}: {count:,} × {code}.")
    lines += [f"- Failed: {text}" for text in summary.failures]
    if any("VIOLATION" in row.errors for row in summary.rows.values()):
        lines.append(
            "- VIOLATION: an answer the protocol does not describe. RocketMQ answers a send of"
            " several messages with one entry; they are confirmed all the same, and counted."
        )
    return "## Remarks\n\n" + "\n".join(lines) if lines else ""
