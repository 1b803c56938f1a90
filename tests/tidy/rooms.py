"""Rooms: folders of modules. Each is small, says what belongs there, and no import goes round.

A module beside subfolders, or directly in a package, counts as a room of its own. Imports for
types alone count too.
"""

import ast
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from tidy.rules import imports

ROOM_MODULES_MAX = 15

Graph = Mapping[str, Iterable[str]]
"""Name → names of what it imports."""


def crowded_rooms(paths: Iterable[Path]) -> list[str]:
    """Folders with too many modules; `__init__.py` is not one."""
    counts = Counter(path.parent for path in paths if path.stem != "__init__")
    return sorted(
        f"{folder}: {count} modules, at most {ROOM_MODULES_MAX}"
        for folder, count in counts.items()
        if count > ROOM_MODULES_MAX
    )


def rooms_without_a_word(sources: Mapping[Path, str]) -> list[str]:
    """Folders whose `__init__.py` is missing or does not say what belongs there."""
    return sorted(
        str(folder)
        for folder in {path.parent for path in sources}
        if not ast.get_docstring(ast.parse(sources.get(folder / "__init__.py", "")))
    )


def import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Dotted module → the modules among `sources` that it imports."""
    return {
        name: {
            there
            for _, dotted in imports(source)
            if (there := _module_of(dotted, sources)) and there != name
        }
        for name, source in sources.items()
    }


def _module_of(dotted: str, modules: Mapping[str, str]) -> str | None:
    """`from a.b import c` imports the module a.b.c or, from a.b, a name."""
    for name in (dotted, dotted.rpartition(".")[0]):
        if name in modules:
            return name
    return None


def room_graph(modules: Graph) -> dict[str, set[str]]:
    folders = {name.rpartition(".")[0] for name in modules}
    with_folders = {folder.rpartition(".")[0] for folder in folders}

    def room(module: str) -> str:
        if module in folders:
            return f"{module}.__init__" if module in with_folders else module
        folder = module.rpartition(".")[0]
        return module if folder in with_folders or "." not in folder else folder

    graph: dict[str, set[str]] = {room(module): set() for module in modules}
    for module, others in modules.items():
        graph[room(module)] |= {room(other) for other in others} - {room(module)}
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """Groups of names each of which imports, over others, every other one."""
    reached = {name: _reached(graph, name) for name in graph}
    found = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return sorted(map(list, found))


def _reached(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += graph.get(name, ())
    return found
