"""What the repository says of itself: the product alone, decisions that exist, one version."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

FOREIGN_WORDS = (
    "/" + "work/",
    "/" + "root/",
    "/" + "home/",
    "/" + "tmp/bash_jobs",
    "." + "library",
    "arti" + "factory",
    "jf" + "rog",
    "ne" + "xus",
    "Cla" + "ude",
    "Anth" + "ropic",
    "Chat" + "GPT",
    "Co" + "pilot",
    "assis" + "tant",
    "lang" + "uage model",
    "sub" + "agent",
)
"""Of machines and of who wrote something; whole words or paths, in any case."""

EMPTY_NAMES = {"util", "utils", "helper", "helpers", "misc", "stuff", "temp", "final", "todo"}
"""What no file is called, alone or as one of several words."""


def foreign_words(text: str) -> list[str]:
    lowered = text.lower()
    return [
        word
        for word in FOREIGN_WORDS
        if (lower := word.lower()) in lowered
        and (lower[0] == "/" or re.search(rf"(?<!\w){re.escape(lower)}", lowered))
    ]


def conflict_lines(text: str) -> list[int]:
    """Lines, from 1, that a merge left behind."""
    marks = ("<" * 7 + " ", ">" * 7 + " ")
    return [number for number, line in enumerate(text.splitlines(), 1) if line.startswith(marks)]


def empty_names(paths: Iterable[str]) -> list[str]:
    """Files or folders whose name does not say what is inside."""
    return [
        path
        for path in paths
        if any(EMPTY_NAMES & set(re.split(r"[_.-]", part.lower())) for part in path.split("/"))
    ]


def double_decisions(names: Iterable[str]) -> list[str]:
    """Numbers, such as 0005, that several files of docs/decisions begin with."""
    return sorted(number for number, count in Counter(n[:4] for n in names).items() if count > 1)


def missing_decisions(texts: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Citations `decisions/NNNN` or `decisions/NNNN-name.md` of a file that does not exist."""
    known = {*names, *(name[:4] for name in names)}
    return [
        f"{path}: {cited}"
        for path, text in texts.items()
        for cited in re.findall(r"decisions/(\d{4}(?:-[\w-]+\.md)?)", text)
        if cited not in known
    ]


def written_versions(texts: Mapping[str, str]) -> list[str]:
    """Places that write a version down as the product's own; only pyproject.toml may."""
    pattern = r"""^\s*(?:__version__|VERSION|version)\s*(?::\s*\w+)?=\s*["']\d+\.\d+"""
    return [path for path, text in texts.items() if re.search(pattern, text, re.MULTILINE)]


def changelog_breaches(text: str, version: str) -> list[str]:
    """The newest heading is `Unreleased` or the version, and the newest number is the version."""
    headings = re.findall(r"^## \[?([^\]\s]+)", text, re.MULTILINE)
    if not headings or headings[0] not in ("Unreleased", version):
        return [f"the newest heading is {headings[:1]}"]
    numbers = [heading for heading in headings if heading != "Unreleased"]
    return [] if numbers[:1] == [version] else [f"{version} is not the newest of {numbers}"]
