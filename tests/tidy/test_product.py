"""The repository speaks of the product; its decisions and its version are in order."""

import subprocess
import tomllib
from functools import cache

import pytest
from click.testing import CliRunner
from tidy import product
from tidy.sources import ROOT

from popmq_cli.main import main

DECISIONS = [path.name for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]


@cache
def texts() -> dict[str, str]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, check=True, timeout=30
    ).stdout.decode()
    return {
        name: (ROOT / name).read_text(errors="replace")
        for name in listed.splitlines()
        if (ROOT / name).is_file() and not name.endswith(".sum")
    }


def version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def test_the_repository_speaks_of_the_product_alone() -> None:
    found = {
        name: words for name, text in texts().items() if (words := product.foreign_words(text))
    }
    assert found == {}


@pytest.mark.parametrize("word", product.FOREIGN_WORDS)
def test_a_foreign_word_is_found(word: str) -> None:
    assert product.foreign_words(f"made by {word.upper()}s") == [word]


@pytest.mark.parametrize("text", ["cd $work", "a library of ours", "roots", "homework", "connexus"])
def test_a_word_of_the_product_is_not(text: str) -> None:
    assert product.foreign_words(text) == []


def test_no_merge_is_half_done() -> None:
    found = {
        name: lines for name, text in texts().items() if (lines := product.conflict_lines(text))
    }
    assert found == {}
    assert product.conflict_lines("a\n" + "<" * 7 + " HEAD\n" + "=" * 7 + "\n") == [2]


def test_names_of_files_say_what_is_inside() -> None:
    assert product.empty_names(texts()) == []


def test_an_empty_name_is_found() -> None:
    bad = ["tests/unit/test_utils.py", "services/misc/pop.py", "docs/todo.md"]
    assert product.empty_names([*bad, "services/broker/pop.py", "tests/utility_bills.py"]) == bad


def test_a_number_is_one_decision() -> None:
    assert product.double_decisions(DECISIONS) == []
    assert product.double_decisions(["0001-a.md", "0002-b.md", "0001-c.md"]) == ["0001"]


def test_decisions_that_are_cited_exist() -> None:
    assert product.missing_decisions(texts(), DECISIONS) == []


def test_a_decision_that_is_missing_is_found() -> None:
    cited = {"a.md": "decisions/" + "0001, decisions/" + "0001-a.md", "b.md": "decisions/" + "0002"}
    assert product.missing_decisions(cited, ["0002-b.md"]) == [
        "a.md: " + "0001",
        "a.md: " + "0001-a.md",
    ]


def test_the_version_is_in_one_place() -> None:
    production = {name: text for name, text in texts().items() if not name.startswith("tests/")}
    assert product.written_versions(production) == ["pyproject.toml"]
    assert product.written_versions({"a.py": '__version__ = "1.2.3"'}) == ["a.py"]
    assert product.written_versions({"a.py": "version = config.version"}) == []


def test_the_command_prints_the_version() -> None:
    """Failing: the environment is older than pyproject.toml; make setup mends it."""
    done = CliRunner().invoke(main, ["--version"])
    assert version() in done.output.split()


def test_the_changelog_fits_the_version() -> None:
    assert product.changelog_breaches((ROOT / "CHANGELOG.md").read_text(), version()) == []


@pytest.mark.parametrize(
    "text", ["", "## 0.1.0\n", "## Unreleased\n\n## 0.3.0\n", "## News\n\n## 0.2.0\n"]
)
def test_a_changelog_that_does_not_fit_is_found(text: str) -> None:
    assert product.changelog_breaches(text, "0.2.0")


@pytest.mark.parametrize("text", ["## 0.2.0\n\n## 0.1.0\n", "## Unreleased\n\n## [0.2.0] - 2026\n"])
def test_a_changelog_that_fits(text: str) -> None:
    assert product.changelog_breaches(text, "0.2.0") == []
