"""Breaches that are known and wait to be mended: a list each, which can only get shorter.

The tests demand that a list is exact. After something is mended,

    PYTHONPATH=tests .venv/bin/python -m tidy.not_yet

takes out of the lists what holds no more; it adds nothing.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

from tidy.class_names import DOUBLE_FOR_A_REASON, double_names
from tidy.duplicates import SHARED_FOR_A_REASON, shared_lines
from tidy.rooms import circles, crowded_rooms, import_graph, room_graph
from tidy.sources import ROOT, by_module, by_path, production

LISTS = Path(__file__).parent / "not_yet"


def class_names() -> set[str]:
    return set(double_names(by_module(production()))) - set(DOUBLE_FOR_A_REASON)


def import_circles() -> set[str]:
    modules = import_graph(by_module(production()))
    return {
        " ".join(circle) for graph in (modules, room_graph(modules)) for circle in circles(graph)
    }


def duplicates() -> set[str]:
    found = {
        (shared.one, shared.other, shared.lines[0])
        for shared in shared_lines(by_path(production()))
    }
    return {
        f"{one} ~ {other}: {line}"
        for one, other, line in found
        if (one, other) not in SHARED_FOR_A_REASON
    }


def rooms() -> set[str]:
    return set(crowded_rooms(path.relative_to(ROOT) for path in production()))


FOUND: dict[str, Callable[[], set[str]]] = {
    one.__name__: one for one in (class_names, import_circles, duplicates, rooms)
}


def listed(name: str) -> list[str]:
    path = LISTS / f"{name}.txt"
    return path.read_text().splitlines() if path.exists() else []


def shorten() -> None:
    for name, find in FOUND.items():
        _write(name, set(listed(name)) & find())


def _write(name: str, lines: Iterable[str]) -> None:
    """An empty list is no file."""
    path = LISTS / f"{name}.txt"
    text = "".join(f"{line}\n" for line in sorted(lines))
    if text:
        path.write_text(text)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    shorten()
