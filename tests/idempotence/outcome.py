"""What came out of one run, and whether the strategy kept its promise."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from idempotence.strategies import Promise


@dataclass(slots=True)
class Outcome:
    strategy: str
    store: str
    delivery: str
    promise: Promise
    messages: int
    deliveries: int = 0
    deaths: int = 0
    deaths_inside: int = 0
    """Between an effect and its mark."""
    killed: int = 0
    """Processes that died."""
    suppressed: int = 0
    turned_away: int = 0
    """`Retry` and `Fenced`: delivered again."""
    late: int = 0
    effects: int = 0
    duplicates: int = 0
    missing: int = 0
    unknown: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    """Of the simulator's process; the server of the effects has its own."""
    error: str = ""
    """What broke the run."""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    def judge(self, effects: Counter[str], wanted: set[str]) -> None:
        self.effects = effects.total()
        self.duplicates = sum(count - 1 for count in effects.values())
        self.missing = len(wanted - effects.keys())
        self.unknown = len(effects.keys() - wanted)

    @property
    def failure(self) -> str | None:
        """What was promised and not kept; and a run without idempotence that shows no duplicates
        proves nothing."""
        if self.error:
            return f"the run broke:\n{self.error}"
        if self.missing or self.unknown:
            return f"{self.missing} effects are missing, {self.unknown} are of no message"
        match self.promise:
            case Promise.NOTHING:
                return None if self.duplicates else "no duplicates: this run shows nothing"
            case Promise.ALONE_IF_QUICK:
                return None
            case Promise.ONCE:
                return f"{self.duplicates} duplicates" if self.duplicates else None
            case Promise.ONCE_WHILE_ALIVE:
                if self.deaths or not self.duplicates:
                    return None
                return f"{self.duplicates} duplicates, and no process died"
            case Promise.AT_LEAST_ONCE:
                allowed = self.deaths_inside + self.late
                if self.duplicates <= allowed:
                    return None
                return f"{self.duplicates} duplicates, {allowed} deaths or pauses explain some"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "promise": self.promise.value, "failure": self.failure}


_COLUMNS = (
    ("strategy", "strategy"),
    ("effects in", "store"),
    ("delivered by", "delivery"),
    ("messages", "messages"),
    ("deliveries", "deliveries"),
    ("deaths", "deaths"),
    ("effects", "effects"),
    ("duplicates", "duplicates"),
    ("suppressed", "suppressed"),
    ("promised", "promise"),
)


def table(outcomes: list[Outcome]) -> str:
    """Markdown."""
    rows = [[title for title, _ in _COLUMNS]]
    for outcome in outcomes:
        values = [getattr(outcome, name) for _, name in _COLUMNS]
        rows.append([_shown(value) for value in values])
    numbers = [isinstance(getattr(outcomes[0], name), int) for _, name in _COLUMNS]
    rule = ["---:" if number else "---" for number in numbers]
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]])


def _shown(value: object) -> str:
    if isinstance(value, Promise):
        return value.value
    return f"{value:,}" if isinstance(value, int) else str(value)
