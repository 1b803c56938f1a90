"""Rooms are small, say what belongs there, and are not imported in circles."""

from pathlib import Path

import pytest
from tidy.rooms import (
    ROOM_MODULES_MAX,
    circles,
    crowded_rooms,
    import_graph,
    room_graph,
    rooms_without_a_word,
)
from tidy.sources import ROOT, by_module, production


def test_rooms_are_small() -> None:
    assert crowded_rooms(path.relative_to(ROOT) for path in production()) == []


def test_nothing_is_imported_in_circles() -> None:
    modules = import_graph(by_module(production()))
    assert circles(modules) == []
    assert circles(room_graph(modules)) == []


def test_every_room_says_what_belongs_there() -> None:
    sources = {path.relative_to(ROOT): text for path, text in production().items()}
    assert rooms_without_a_word(sources) == []


def test_a_crowded_room_is_found() -> None:
    paths = [Path("a", f"{number}.py") for number in range(ROOM_MODULES_MAX + 1)]
    assert crowded_rooms(paths)
    assert crowded_rooms([*paths[1:], Path("a", "__init__.py"), Path("b", "0.py")]) == []


@pytest.mark.parametrize("text", ["", "VALUE = 1\n"])
def test_a_room_without_a_word_is_found(text: str) -> None:
    assert rooms_without_a_word({Path("a/m.py"): "", Path("a/__init__.py"): text}) == ["a"]
    assert rooms_without_a_word({Path("a/m.py"): ""}) == ["a"]
    assert rooms_without_a_word({Path("a/__init__.py"): '"""What it is about."""\n'}) == []


@pytest.mark.parametrize(
    "line",
    [
        "import p.one",
        "from p import one",
        "from p.one import Name",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.one import Name",
        "def f():\n    from p.one import Name",
    ],
)
def test_a_circle_of_modules_is_found(line: str) -> None:
    graph = import_graph({"p": "", "p.one": "import p.two", "p.two": "import p.six", "p.six": line})
    assert circles(graph) == [["p.one", "p.six", "p.two"]]


def test_what_only_points_down_is_no_circle() -> None:
    graph = import_graph(
        {"p": "", "p.one": "from p import two, six", "p.two": "import p.six", "p.six": ""}
    )
    assert circles(graph) == []


def test_a_circle_of_rooms_is_found() -> None:
    """No module is in one: p.a.one → p.b.one, p.b.two → p.a.two."""
    modules = {
        "p": "",
        "p.a": "",
        "p.b": "",
        "p.a.one": "import p.b.one",
        "p.a.two": "",
        "p.b.one": "",
        "p.b.two": "import p.a.two",
    }
    graph = import_graph(modules)
    assert circles(graph) == []
    assert circles(room_graph(graph)) == [["p.a", "p.b"]]


def test_a_module_beside_rooms_is_a_room_of_its_own() -> None:
    modules = {
        "p": "",
        "p.top": "import p.a.one",
        "p.low": "",
        "p.a": "",
        "p.a.one": "import p.low",
    }
    graph = room_graph(import_graph(modules))
    assert graph["p.top"] == {"p.a"}
    assert circles(graph) == []
    modules["p.low"] = "import p.a.two"
    modules["p.a.two"] = ""
    assert circles(room_graph(import_graph(modules))) == [["p.a", "p.low"]]
