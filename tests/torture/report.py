"""What a history shows, as lines for people; the last one has the figures."""

from collections import Counter
from collections.abc import Sequence

from torture.history import History
from torture.judge import Violation
from torture.outages import Outages

SHOWN_MAX = 10
"""Violations of a rule."""


def report(history: History, violations: Sequence[Violation], found: Sequence[Outages]) -> str:
    lines = ["time without service, in seconds: times, p50, p99, max"] if found else []
    lines += [
        f"  {one.fault + ('' if one.alone else ', and others'):<48}"
        f"{len(one.times_s):5}{one.quantile(0.5):8.2f}{one.quantile(0.99):8.2f}"
        f"{one.times_s[-1]:8.2f}"
        for one in found
    ]
    shown: Counter[str] = Counter()
    for violation in violations:
        shown[violation.rule] += 1
        if shown[violation.rule] <= SHOWN_MAX:
            lines.append(f"VIOLATION {violation.rule} at {violation.at_s:.3f}: {violation.text}")
    return "\n".join([*lines, figures(history, violations)])


def figures(history: History, violations: Sequence[Violation]) -> str:
    ok: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for call in history.calls:
        (failed if call.error else ok)[call.name] += 1
    parts = [f"{name}s {ok[name]:,}" for name in ("send", "half", "receive", "ack", "nack")]
    which = ", ".join(f"{name}s {count:,}" for name, count in sorted(failed.items())) or "none"
    rules = Counter(violation.rule for violation in violations)
    wrong = ", ".join(f"{rule} {count}" for rule, count in sorted(rules.items())) or "none"
    return (
        f"seed {history.runs[0].seed}; faults {len(history.faults):,}; OK: {', '.join(parts)}; "
        f"failed calls: {which}; stored {len(history.stored):,}; violations: {wrong}"
    )
