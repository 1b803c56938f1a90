"""What ARCHITECTURE.md says of places, as functions over its text."""

import re
from collections.abc import Mapping

LINES_MAX = 200
SEND_FILES_MAX = 20
FOUND_AMONG = 8
"""A question's words are found in the path and docstring of its file, and of few others."""

SHORT = {"sdk": "sdk/popmq", "pipelines": "pipelines/popmq_pipelines"} | {
    name: f"services/{name}/popmq_{name}"
    for name in (
        "broker",
        "cli",
        "common",
        "console",
        "nameserver",
        "proxy",
        "readings",
        "standalone",
        "testing",
    )
}
"""How the map calls the packages → where they are."""

QUESTION_WORDS = {"a", "an", "are", "does", "in", "is", "of", "s", "the", "to", "where"}


def whole(short: str) -> str:
    """broker/core → services/broker/popmq_broker/core; other paths are whole already."""
    top, slash, rest = short.partition("/")
    return f"{SHORT[top]}{slash}{rest}" if top in SHORT else short


def places(text: str) -> list[str]:
    """Files and folders that the text names between backticks, and pages of docs/, whole."""
    marked = re.findall(r"`([a-z_0-9]+(?:/[\w.-]+)+)`", text)
    pages = re.findall(r"(?<![\w/])docs/[\w/-]+\.md", text)
    return [whole(place) for place in [*marked, *pages]]


def section(text: str, heading: str) -> str:
    """What stands below `## heading…`, up to the next one."""
    for part in text.split("\n## ")[1:]:
        if part.startswith(heading):
            return part
    raise KeyError(heading)


def rows(text: str) -> dict[str, str]:
    """First cell → second cell of the table in `text`, without its head."""
    cells = re.findall(r"^\| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    return dict(cells[2:] if cells[1:2] == [("---", "---")] else cells)


def rooms(text: str) -> list[str]:
    return [whole(name.strip("`")) for name in rows(section(text, "Rooms"))]


def steps_without_a_file(text: str) -> list[str]:
    steps = re.split(r"^\d+\. ", section(text, "A message's life"), flags=re.MULTILINE)[1:]
    return [step for step in steps if not any(place.endswith(".py") for place in places(step))]


def words(text: str) -> set[str]:
    """What one would search for, as stems: `leases`, `lease`; `expired`, `expires`."""
    return {
        re.sub(r"(?<=\w{3})(ies|es|e|s|ed|d|ing|y)$", "", word)
        for word in re.findall(r"[a-z0-9]+", text.lower())
        if word not in QUESTION_WORDS
    }


def found_by(question: str, descriptions: Mapping[str, str]) -> list[str]:
    """The files whose path and docstring have all words of the question."""
    asked = words(question)
    return [path for path, text in descriptions.items() if asked <= words(f"{path} {text}")]
