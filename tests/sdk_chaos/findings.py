"""What a campaign showed: per kind of fault what was lost, what came again and why, how long the
flow stood still. All times are of `time.monotonic`, which the processes of a machine share.

What came again is counted with the strike that explains it: the one under way when the message was
handled first, or the next one after (its consumer died before the ack, or the ack found nobody).
A message that is there twice is counted with the strike under way while it was sent, or the next.
"""

import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self


class Sent(NamedTuple):
    """A send that was answered OK."""

    number: int
    began_s: float
    stored_s: float


class Handled(NamedTuple):
    """A message that a handler was done with."""

    number: int
    at_s: float
    attempt: int
    message_id: str
    place: str
    """Where it is stored; of a message that is there twice each copy has its own."""
    consumer: int
    """The process."""

    def line(self) -> bytes:
        return " ".join(map(str, self)).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Self:
        number, at_s, attempt, message_id, place, consumer = line.decode().split(" ")
        return cls(int(number), float(at_s), int(attempt), message_id, place, int(consumer))


class Strike(NamedTuple):
    """Something was ended, and started again."""

    target: str
    """Its kind: consumer, proxy, broker."""
    began_s: float
    back_s: float
    """The new process served."""


@dataclass(slots=True)
class Row:
    """Of one kind of target."""

    target: str
    times: int = 0
    sent: int = 0
    """From these strikes until the next ones."""
    lost: int = 0
    delivered_again: int = 0
    """Handled, and not acked: counted, as attempt 2 and up."""
    stored_twice: int = 0
    """A send whose answer was lost was sent again."""
    pauses_s: list[float] = field(default_factory=list)
    """Per strike the longest time in which nothing was handled."""
    slowest_s: float = 0.0
    """From the call of `send` until it was handled."""

    @property
    def again(self) -> int:
        return self.delivered_again + self.stored_twice

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "pauses_s": [round(pause, 3) for pause in self.pauses_s]}


@dataclass(slots=True)
class Findings:
    fault: str
    messages: int
    sent: int
    lost: list[int]
    again: list[int]
    """Those that were handled more than once."""
    rows: list[Row]
    wrong: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "rows": [row.as_json() for row in self.rows]}


def found(
    fault: str,
    messages: int,
    strikes: Sequence[Strike],
    sent: Sequence[Sent],
    handled: Sequence[Handled],
) -> Findings:
    """`strikes` one after the other. What was struck by nobody is counted with target "none"."""
    by_number: dict[int, list[Handled]] = {}
    for one in sorted(handled, key=lambda one: one.at_s):
        by_number.setdefault(one.number, []).append(one)
    rows = {name: Row(name) for name in (*dict.fromkeys(s.target for s in strikes), "none")}
    backs = [strike.back_s for strike in strikes]
    begins = [strike.began_s for strike in strikes]

    def behind(at_s: float) -> Row:
        """The last strike that had begun by then."""
        i = bisect_left(begins, at_s) - 1
        return rows[strikes[i].target if i >= 0 else "none"]

    def explaining(at_s: float) -> Row:
        """Under way then, or the next one."""
        i = bisect_left(backs, at_s)
        return rows[strikes[i].target if i < len(strikes) else "none"]

    lost = []
    for send in sent:
        row = behind(send.stored_s)
        row.sent += 1
        deliveries = by_number.get(send.number, [])
        if not deliveries:
            row.lost += 1
            lost.append(send.number)
            continue
        row.slowest_s = max(row.slowest_s, deliveries[0].at_s - send.began_s)
        first = deliveries[0]
        for other in deliveries[1:]:
            if other.attempt == 1 and other.place != first.place:
                explaining(send.began_s).stored_twice += 1
            else:
                explaining(first.at_s).delivered_again += 1
    ends_s = max((send.stored_s for send in sent), default=0.0)
    times_s = sorted(one.at_s for one in handled)
    for strike, next_s in zip(strikes, [*begins[1:], ends_s], strict=True):
        row = rows[strike.target]
        row.times += 1
        if strike.began_s < ends_s:
            row.pauses_s.append(_longest_pause_s(times_s, strike.began_s, min(next_s, ends_s)))
    again = [number for number, deliveries in by_number.items() if len(deliveries) > 1]
    kept = [row for row in rows.values() if row.times or row.sent or row.again]
    return Findings(fault, messages, len(sent), lost, again, kept)


def _longest_pause_s(times_s: Sequence[float], began_s: float, ends_s: float) -> float:
    """The longest time without an event that begins in between."""
    i = bisect_left(times_s, began_s)
    longest_s, last_s = 0.0, began_s
    while last_s < ends_s and i < len(times_s):
        longest_s = max(longest_s, times_s[i] - last_s)
        last_s = times_s[i]
        i += 1
    return longest_s


_TITLES = (
    "fault",
    "of a",
    "times",
    "sent",
    "lost",
    "delivered again",
    "stored twice",
    "allowed",
    "pause, median",
    "pause, longest",
    "slowest message",
)


def table(all_found: Sequence[Findings]) -> str:
    """Markdown."""
    lines = [_TITLES, ("---", "---", *["---:"] * 5, "---", *["---:"] * 3)]
    for one in all_found:
        for row in one.rows:
            pauses_s = row.pauses_s or [0.0]
            lines.append(
                (
                    {"stop": "SIGTERM", "kill": "kill -9"}[one.fault],
                    row.target,
                    f"{row.times:,}",
                    f"{row.sent:,}",
                    f"{row.lost:,}",
                    f"{row.delivered_again:,}",
                    f"{row.stored_twice:,}",
                    "no" if one.fault == "stop" else "yes",
                    f"{statistics.median(pauses_s):.2f} s",
                    f"{max(pauses_s):.2f} s",
                    f"{row.slowest_s:.2f} s",
                )
            )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
