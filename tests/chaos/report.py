"""Rows as a table for people, as Markdown for docs/failures.md, and as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chaos.cluster import KINDS
from chaos.judge import Row

BEGIN, END = "<!-- make chaos: begin -->", "<!-- make chaos: end -->"
NAMES = {"sdk": "SDK", "python": "Python", "go": "Go"}
HEAD = [
    "fault",
    "sent, received",
    "errors seen: SDK, Python, Go",
    "lost",
    "again after an OK ack",
    "out of order",
    "longest pause",
    "recovered after",
]
SHOWN_MAX = 5


def seen(row: Row, kind: str) -> str:
    """`3 sends, 1 receive`; 0 when its user saw none."""
    parts = [
        f"{count} {what}{'s' if count > 1 else ''}"
        for what, count in sorted(row.errors.get(kind, {}).items())
    ]
    return ", ".join(parts) or "0"


def cells(row: Row) -> list[str]:
    return [
        row.window.title,
        f"{row.sent:,}, {row.received:,}",
        "; ".join(seen(row, kind) for kind in KINDS),
        str(len(row.lost)),
        str(len(row.repeated)),
        str(len(row.disordered)),
        f"{row.pause_s:.1f} s",
        f"{row.recovered_s:.1f} s" if row.recovered_s else "at once",
    ]


def markdown(rows: Sequence[Row]) -> str:
    lines = ["| " + " | ".join(HEAD) + " |", "|" + " --- |" * len(HEAD)]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    return "\n".join(lines)


def write(path: Path, rows: Sequence[Row]) -> None:
    """The table takes the place of the one before, between its marks."""
    text = path.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{markdown(rows)}\n{END}{after}")


def document(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {
            "fault": row.window.name,
            "title": row.window.title,
            "sent": row.sent,
            "received": row.received,
            "errors": {kind: dict(row.errors.get(kind, {})) for kind in KINDS},
            "lost": len(row.lost),
            "repeated_after_ack": len(row.repeated),
            "out_of_order": len(row.disordered),
            "stored_twice": row.stored_twice,
            "longest_pause_s": round(row.pause_s, 2),
            "recovered_s": round(row.recovered_s, 2),
        }
        for row in rows
    ]


def wrong(rows: Sequence[Row], gentle: set[str]) -> list[str]:
    """What must not be. `gentle`: faults of which our SDK's users see nothing."""
    found = []
    for row in rows:
        name = row.window.name
        for what, bodies in (
            ("lost", row.lost),
            ("came after an ack that was answered OK", row.repeated),
            ("came out of order", row.disordered),
        ):
            if bodies:
                found.append(f"{name}: {len(bodies)} {what}: {', '.join(bodies[:SHOWN_MAX])}")
        if name in gentle and row.errors.get("sdk"):
            found.append(f"{name}: our SDK saw {seen(row, 'sdk')} fail")
    return found
