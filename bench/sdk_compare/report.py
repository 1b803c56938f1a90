"""What the rounds of both clients come to."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

from sdk_compare.sides import Row

GOAL: Final = 10.0
KINDS: Final = ("send", "receive")
BEGIN: Final = "<!-- written by make bench-sdk WRITE=1 -->\n"
END: Final = "<!-- end of what is written -->\n"
Rounds = Mapping[str, Sequence[Row]]
"""By way."""


class Seen(NamedTuple):
    """Of one way over all rounds."""

    client: str
    way: str
    rate: float
    lowest: float
    highest: float
    cpu_us: float


class Ratio(NamedTuple):
    """Of our way to the best of theirs: the median of the ratios of each round."""

    kind: str
    ours: str
    theirs: str
    rate: float
    lowest: float
    highest: float
    cpu: float
    """How many times more CPU time of the client theirs takes for a message."""

    @property
    def reached(self) -> bool:
        return self.rate >= GOAL


def fastest(tried: Mapping[str, Row], kind: str) -> str:
    """The way of this kind that did most in a second."""
    return max((way for way in tried if way.startswith(kind)), key=lambda way: tried[way].rate)


def seen(client: str, rounds: Rounds) -> list[Seen]:
    return [
        Seen(
            client,
            way,
            median(row.rate for row in rows),
            min(row.rate for row in rows),
            max(row.rate for row in rows),
            median(row.cpu_us for row in rows),
        )
        for way, rows in rounds.items()
    ]


def ratio(kind: str, ours: tuple[str, Sequence[Row]], theirs: tuple[str, Sequence[Row]]) -> Ratio:
    both = list(zip(ours[1], theirs[1], strict=True))
    rates = [mine.rate / other.rate for mine, other in both]
    cpus = [other.cpu_us / mine.cpu_us for mine, other in both]
    return Ratio(kind, ours[0], theirs[0], median(rates), min(rates), max(rates), median(cpus))


def table(tried: Mapping[str, Row], rows: Sequence[Seen], ratios: Sequence[Ratio]) -> str:
    """Markdown: what was tried of theirs, what was measured, and the ratios."""
    lines = [
        "The official client's ways, each for a moment; the best of a kind went on:",
        "",
        "| way | msg/s | CPU µs per message |",
        "| --- | ---: | ---: |",
        *(f"| {way} | {row.rate:,.0f} | {row.cpu_us:,.0f} |" for way, row in tried.items()),
        "",
        "In turns, medians of the rounds, the slowest and the fastest one:",
        "",
        "| client | way | msg/s | rounds | CPU µs per message |",
        "| --- | --- | ---: | --- | ---: |",
    ]
    for one in rows:
        spread = f"{one.lowest:,.0f} to {one.highest:,.0f}"
        figures = f"{one.rate:,.0f} | {spread} | {one.cpu_us:,.1f}"
        lines.append(f"| {one.client} | {one.way} | {figures} |")
    lines.append("")
    for found in ratios:
        spread = f"{found.lowest:.1f} to {found.highest:.1f}"
        lines.append(
            f"- **{found.ours}**: {found.rate:.1f} times {found.theirs} of the official client "
            f"({spread}), which takes {found.cpu:.1f} times the CPU time per message."
        )
    return "\n".join([*lines, ""])


def document(
    tried: Mapping[str, Row], rounds: Mapping[str, Rounds], ratios: Sequence[Ratio]
) -> dict[str, Any]:
    """The same for programs, each round by itself."""
    return {
        "goal": GOAL,
        "reached": all(one.reached for one in ratios),
        "tried": {way: row._asdict() for way, row in tried.items()},
        "rounds": {
            client: {way: [row._asdict() for row in rows] for way, rows in ways.items()}
            for client, ways in rounds.items()
        },
        "ratios": [one._asdict() for one in ratios],
    }


def written_into(page: str, text: str) -> str:
    """The page with `text` between the marks. Raises `ValueError` if it has none."""
    if BEGIN not in page or END not in page:
        raise ValueError("the page has no place for the table")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{text}\n{END}{after}"
