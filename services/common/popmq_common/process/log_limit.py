"""Which log lines are written when the same thing happens again and again.

The first line of a kind is written, the others are counted, and the count is written once a minute
until there is nothing to count. Two lines are of one kind when all their fields are the same; of
two with a traceback, when the error is of one class and comes from one place. Of the lines of one
event with ever other fields so many a minute are written, and the rest counted.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

WINDOW_S: Final = 60.0
EVENT_LINES_MAX = 100
"""Lines of one event in a window, whatever their fields."""
KEYS_MAX = 1_000
"""Kinds of lines that are remembered; the oldest is forgotten first, with its count."""
_OF_AN_EVENT: Final = ("service", "broker", "level", "event")
Line = Mapping[str, Any]


@dataclass(slots=True)
class Window:
    line: dict[str, Any]
    """The first of it, as it is told again."""
    began_s: float
    written: int = 0
    counted: int = 0


class Windows:
    def __init__(self) -> None:
        self._by_key: OrderedDict[Hashable, Window] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_key)

    def at(self, key: Hashable, line: Line, now_s: float) -> Window:
        found = self._by_key.get(key)
        if found is None:
            while len(self._by_key) >= KEYS_MAX:
                self._by_key.popitem(last=False)
            found = self._by_key[key] = Window(_kept(line), now_s)
        return found

    def ended(self, now_s: float) -> list[dict[str, Any]]:
        """Lines that tell the counts. Where nothing was counted the next line is a first one."""
        told = []
        for key, window in list(self._by_key.items()):
            if now_s - window.began_s < WINDOW_S:
                continue
            if window.counted:
                told.append({**window.line, "repeated": window.counted, "in_s": round(WINDOW_S)})
                window.began_s, window.counted = now_s, 0
            else:
                del self._by_key[key]
        return told


class LogLimit:
    def __init__(self) -> None:
        self._kinds, self._events = Windows(), Windows()

    @property
    def key_count(self) -> int:
        return max(len(self._kinds), len(self._events))

    def admits(self, line: Line, now_s: float) -> bool:
        """Whether this line is to be written; else it is counted."""
        kind = self._kinds.at(_kind(line), line, now_s)
        if kind.written:
            kind.counted += 1
            return False
        event = {name: line[name] for name in _OF_AN_EVENT if name in line}
        more = {**event, "means": "lines of this event"}
        window = self._events.at(tuple(event.items()), more, now_s)
        if window.written >= EVENT_LINES_MAX:
            window.counted += 1
            return False
        kind.written = 1
        window.written += 1
        return True

    def ended(self, now_s: float) -> list[dict[str, Any]]:
        """What is to be written of the windows that are over."""
        return [*self._kinds.ended(now_s), *self._events.ended(now_s)]


def _kept(line: Line) -> dict[str, Any]:
    """Without the error itself, which holds all that was going on."""
    kept = dict(line)
    error = _error(kept.pop("exc_info", None))
    if error is not None:
        kept["error"] = f"{type(error).__name__}: {error}"
    return kept


def _kind(line: Line) -> Hashable:
    error = _error(line.get("exc_info"))
    if error is None:
        return tuple((name, repr(value)) for name, value in sorted(line.items()))
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = None if place is None else (place.tb_frame.f_code.co_filename, place.tb_lineno)
    return (line.get("event"), type(error), where)


def _error(exc_info: object) -> BaseException | None:
    if isinstance(exc_info, tuple):
        exc_info = exc_info[1]
    return exc_info if isinstance(exc_info, BaseException) else None
