"""The images install what the project says it needs. Mend it with: make pins."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from harness.pins import pins, plain

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def names(requirements: list[str]) -> set[str]:
    found = (re.match(r"[A-Za-z0-9_.-]+", one) for one in requirements)
    return {plain(match.group()) for match in found if match}


def needs_of(extra: str) -> list[str]:
    """With those of the extras that it brings."""
    found: list[str] = []
    for need in PROJECT["optional-dependencies"][extra]:
        own = re.fullmatch(r"popmq\[(.+)\]", need)
        found += needs_of(own.group(1)) if own else [need]
    return found


@pytest.mark.parametrize(
    ("file", "extras"),
    [("server", ["server", "console"]), ("pipelines", ["pipelines", "lake"])],
)
def test_each_need_has_a_pin(file: str, extras: list[str]) -> None:
    found = pins(file)
    for pin, hashes in found.items():
        assert re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*", pin)
        assert hashes, pin
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes)
    needs = list(PROJECT["dependencies"])
    for extra in extras:
        needs += needs_of(extra)
    assert names(needs) <= names(list(found))


def test_what_builds_the_project_is_pinned() -> None:
    """And what compiles its hot modules."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needs = [*whole["build-system"]["requires"], *whole["dependency-groups"]["compile"]]
    found = pins("build")
    assert names(needs) <= names(list(found))
    assert all(found.values())


@pytest.mark.parametrize("file", ["Dockerfile", "pipelines.Dockerfile"])
def test_an_image_takes_only_archives_that_are_pinned(file: str) -> None:
    """Each call of pip names hashes, or fetches nothing: no needs, no build tools, no index."""
    text = (ROOT / "deploy" / file).read_text().replace("\\\n", " ")
    calls = re.findall(r"\bpip\b[^&;\n]*\b(?:install|wheel)\b[^&;\n]*", text)
    assert len(calls) >= 4
    for call in calls:
        if "-r deploy/requirements/" in call:
            assert "--require-hashes" in call
            continue
        assert "--no-deps" in call
        assert "--no-build-isolation" in call or "--no-index" in call


def test_what_the_pipelines_import_is_in_their_extras() -> None:
    """Also through modules of the services, which users of the extra do not have all needs of."""
    pinned = names(list(pins("pipelines")))
    missing = {
        f"{module} imports {name}"
        for module, name in imports_of("popmq_pipelines")
        if not {plain(dist) for dist in DISTRIBUTIONS.get(name, [name])} & pinned
    }
    assert missing == {"destination.py imports fsspec"}  # who exports to a URL installs it


DISTRIBUTIONS = packages_distributions()


def imports_of(package: str) -> Iterator[tuple[str, str]]:
    """(a module of the project, a package that is not of the project): what modules of the package
    import anywhere, and what modules that they reach import when they are loaded."""
    folder = ROOT / "pipelines" / package
    waiting = [(path, True) for path in sorted(folder.rglob("*.py"))]
    seen = set(waiting)
    while waiting:
        path, whole = waiting.pop()
        tree = ast.parse(path.read_text())
        for name in set(imported(ast.walk(tree) if whole else loaded(tree.body))):
            top = name.partition(".")[0]
            if (found := source_of(name)) is not None:
                if (found, False) not in seen and (found, True) not in seen:
                    seen.add((found, False))
                    waiting.append((found, False))
            elif top not in sys.stdlib_module_names and top not in OWN:
                yield path.name, top


OWN = {
    "popmq",
    "popmq_pipelines",
    "apache",
    *(path.name for path in (ROOT / "proto/gen").iterdir()),
} | {path.name for path in (ROOT / "services").glob("*/popmq_*")}


def loaded(statements: list[ast.stmt]) -> Iterator[ast.AST]:
    """Of a module, what runs when it is imported, but what is for type checkers alone."""
    for one in statements:
        if isinstance(one, ast.If) and "TYPE_CHECKING" in ast.dump(one.test):
            continue
        yield one
        if isinstance(one, ast.If | ast.Try):
            yield from loaded(one.body)


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def source_of(module: str) -> Path | None:
    """Of a module of the project; None: it is another one's, generated, or a name in a module."""
    parts = Path(*module.split("."))
    for root in (ROOT / "pipelines", ROOT / "sdk", *sorted((ROOT / "services").iterdir())):
        for path in (root / parts.with_suffix(".py"), root / parts / "__init__.py"):
            if path.is_file():
                return path
    return None


def test_the_extras_are_told_with_what_they_bring() -> None:
    """docs/sdk.md has a line for each."""
    expected = {
        extra: {re.split(r"[><=;]", one)[0].strip() for one in requirements}
        for extra, requirements in PROJECT["optional-dependencies"].items()
    }
    text = (ROOT / "docs" / "sdk.md").read_text()
    lines = re.findall(r"^\| `popmq\[(\w+)\]` \| [^|]* \| ([^|]*) \|$", text, re.MULTILINE)
    told = {extra: set(names.replace("`", "").split(", ")) for extra, names in lines}
    assert {extra: {name.strip() for name in names} for extra, names in told.items()} == expected
