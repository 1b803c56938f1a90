"""Configuration from the environment: all mistakes at once, nothing guessed."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest

from popmq_common.process.config import ConfigError, describe, from_env, unknown_variables


class Mode(StrEnum):
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    folder: Path
    """Where it is."""
    count: int = 3
    """How many."""
    names: tuple[str, ...] = ()
    """Who."""
    mode: Mode = Mode.ON
    """Whether."""
    key: Path | None = None
    """With what."""
    loud: bool = False
    """How."""


def test_values_and_defaults() -> None:
    environ = {"X_FOLDER": "/a", "X_NAMES": "b,c", "X_MODE": "OFF", "X_KEY": "k", "X_LOUD": "yes"}
    assert from_env(Example, "X_", environ) == Example(
        folder=Path("/a"), names=("b", "c"), mode=Mode.OFF, key=Path("k"), loud=True
    )


def test_all_mistakes_are_told_at_once() -> None:
    environ = {"X_COUNT": "many", "X_MODE": "maybe", "X_LOUD": "?"}
    with pytest.raises(ConfigError) as wrong:
        from_env(Example, "X_", environ)
    lines = str(wrong.value).splitlines()
    assert lines[0] == "X_FOLDER is missing: Where it is."
    assert lines[1].startswith("X_COUNT='many':")
    assert lines[2] == "X_MODE='maybe': one of on, off"
    assert lines[3] == "X_LOUD='?': say true or false"


def test_unknown_variables_are_named() -> None:
    assert unknown_variables(Example, "X_", {"X_FOLDR": "", "Y": ""}) == ["X_FOLDR"]


def test_docstrings_are_the_manual() -> None:
    assert describe(Example)["count"] == "How many."
