"""ARCHITECTURE.md is short, names what exists, and has every room."""

import ast
from functools import cache

import pytest
from tidy import the_map
from tidy.sources import ROOT, production

TEXT = (ROOT / "ARCHITECTURE.md").read_text()
QUESTIONS = the_map.rows(the_map.section(TEXT, "Where is"))
CALLS = the_map.rows(the_map.section(TEXT, "The files that a call passes"))


def missing(text: str) -> list[str]:
    return [place for place in the_map.places(text) if not (ROOT / place).exists()]


@cache
def descriptions() -> dict[str, str]:
    return {
        str(path.relative_to(ROOT)): ast.get_docstring(ast.parse(source)) or ""
        for path, source in production().items()
        if path.stem != "__init__"
    }


def test_it_fits_on_a_few_screens() -> None:
    assert len(TEXT.splitlines()) <= the_map.LINES_MAX


def test_every_place_exists() -> None:
    assert len(the_map.places(TEXT)) > 100
    assert missing(TEXT) == []


def test_a_place_that_does_not_exist_is_found() -> None:
    text = "`broker/engine/sand.py`, `broker/engine/send.py`, docs/nothing.md, `proxy/kern` `a.py`"
    assert missing(text) == [
        "services/broker/popmq_broker/engine/sand.py",
        "services/proxy/popmq_proxy/kern",
        "docs/nothing.md",
    ]


def test_every_room_is_in_the_table() -> None:
    """Folders that hold only folders may be there or not."""
    named = the_map.rooms(TEXT)
    assert sorted(named) == sorted(set(named))
    rooms = {str(path.parent.relative_to(ROOT)) for path in production() if path.stem != "__init__"}
    assert rooms - set(named) == set()


def test_every_step_of_a_message_names_a_file() -> None:
    assert the_map.steps_without_a_file(TEXT) == []
    bare = "# M\n\n## A message's life\n\n1. `broker/app.py` begins.\n2. It\n   ends.\n\n## Next\n"
    assert the_map.steps_without_a_file(bare) == ["It\n   ends.\n"]


def test_a_send_passes_few_files() -> None:
    assert CALLS.keys() == {"send", "receive", "ack", "change"}
    files = {call: the_map.places(text) for call, text in CALLS.items()}
    assert all(place.endswith(".py") for places in files.values() for place in places)
    assert len(files["send"]) == len(set(files["send"])) <= the_map.SEND_FILES_MAX
    assert files["send"][0].startswith("services/proxy/")
    assert any(place.startswith("services/broker/popmq_broker/store/") for place in files["send"])


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_questions_words_find_its_file(question: str) -> None:
    """They are in the file's path and docstring, and not in those of many others."""
    (file,) = the_map.places(QUESTIONS[question])
    found = the_map.found_by(question, descriptions())
    assert file in found
    assert len(found) <= the_map.FOUND_AMONG, found


def test_words_that_a_file_lacks_do_not_find_it() -> None:
    files = {"broker/revive.py": "Leases that expired.", "broker/pop.py": "A lease begins."}
    assert the_map.found_by("Where does a lease expire?", files) == ["broker/revive.py"]
    assert the_map.found_by("Where is a lease renewed?", files) == []


def test_the_questions_are_there() -> None:
    assert len(QUESTIONS) >= 8
