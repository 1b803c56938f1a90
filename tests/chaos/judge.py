"""Events of all clients → a row per fault: what was lost, repeated, out of order, and how long."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from chaos.events import Event

PAUSE_S = 1.5
"""Between two successes of one kind of call of one client: longer is a disturbance."""


@dataclass(frozen=True, slots=True)
class Window:
    """A fault's time: until the next one begins."""

    name: str
    title: str
    began_s: float
    healed_s: float
    """From then on nothing is broken any more."""
    ended_s: float


@dataclass(slots=True)
class Row:
    window: Window
    sent: int = 0
    """Messages that were answered OK."""
    received: int = 0
    errors: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Kind of client → what failed → how often its user saw it."""
    lost: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    """Came in a receive that began after their ack had been answered OK."""
    disordered: list[str] = field(default_factory=list)
    stored_twice: int = 0
    """A send was tried again although its first try had been stored: the client's doing."""
    pause_s: float = 0.0
    """The longest in which a client had no success in sending, or in receiving."""
    recovered_s: float = 0.0
    """After the fault began: the last disturbance was over."""

    @property
    def clean(self) -> bool:
        return not (self.lost or self.repeated or self.disordered)


def judge(
    events: Sequence[Event], windows: Sequence[Window], copies_of: Callable[[str], int]
) -> list[Row]:
    """`copies_of`: how often a message is stored; asked only for those that came after an ack."""
    rows = [Row(window) for window in windows]
    by_time = sorted(events, key=lambda event: event.ended_s)

    def row_at(time_s: float) -> Row | None:
        for row in rows:
            if row.window.began_s <= time_s < row.window.ended_s:
                return row
        return None

    for event in by_time:
        row = row_at(event.ended_s)
        if row is None:
            continue
        if event.error:
            row.errors[event.kind][event.what] += 1
        elif event.what == "send":
            row.sent += 1
        elif event.what == "receive":
            row.received += 1
    _lost(by_time, row_at)
    _repeated(by_time, row_at, copies_of)
    _disordered(by_time, row_at)
    for row in rows:
        _disturbances(by_time, row)
    return rows


RowAt = Callable[[float], Row | None]


def _lost(events: Iterable[Event], row_at: RowAt) -> None:
    received = {event.body for event in events if event.what == "receive"}
    for event in events:
        if event.what == "send" and not event.error and event.body not in received:
            row = row_at(event.ended_s)
            if row is not None:
                row.lost.append(event.body)


def _repeated(events: Iterable[Event], row_at: RowAt, copies_of: Callable[[str], int]) -> None:
    """A message that is stored n times may be acked n times: so often its coming is no repetition,
    for nobody can tell the copies apart."""
    acked: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event.what == "ack" and not event.error:
            acked[event.body].append(event.ended_s)
    last: dict[str, Event] = {}
    for event in events:
        ends = acked.get(event.body)
        if event.what == "receive" and ends and event.began_s > ends[0]:
            last[event.body] = event
    for body, again in last.items():
        row = row_at(again.ended_s)
        if row is None:
            continue
        copies = copies_of(body)
        row.stored_twice += copies > 1
        if sum(end_s < again.began_s for end_s in acked[body]) >= copies:
            row.repeated.append(body)


def _disordered(events: Iterable[Event], row_at: RowAt) -> None:
    """Of each message group, what comes first for the first time is in the order of its sends."""
    highest: dict[str, int] = {}
    seen: set[str] = set()
    for event in events:
        if event.what != "receive" or event.error or not event.in_order or event.body in seen:
            continue
        seen.add(event.body)
        before = highest.get(event.line, -1)
        highest[event.line] = max(before, event.number)
        if event.number < before and (row := row_at(event.ended_s)) is not None:
            row.disordered.append(f"{event.body} after {before}")


def _disturbances(events: Iterable[Event], row: Row) -> None:
    """A call that failed, or a long time without a success, of sends and of receives apart."""
    window = row.window
    last_ok: dict[tuple[str, str], float] = {}
    for event in events:
        if event.what == "ack":
            continue
        key = event.kind, event.what
        inside = window.began_s <= event.ended_s < window.ended_s
        since_s = max(last_ok.get(key, window.began_s), window.began_s)
        if inside and event.error:
            row.recovered_s = max(row.recovered_s, event.ended_s - window.began_s)
        if event.error:
            continue
        if inside and event.ended_s - since_s > row.pause_s:
            row.pause_s = event.ended_s - since_s
        if inside and event.ended_s - since_s > PAUSE_S:
            row.recovered_s = max(row.recovered_s, event.ended_s - window.began_s)
        last_ok[key] = event.ended_s
    for since_s in last_ok.values():
        silent_s = window.ended_s - max(since_s, window.began_s)
        if since_s < window.ended_s and silent_s > row.pause_s:
            row.pause_s = silent_s
