"""The code in README.md and docs/ is of now: programs compile, imports exist, commands parse.

A block that is no whole program has a line above it that says which names it takes as given:

    <!-- fragment: client, handle -->
"""

import ast
import importlib
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from tidy.pages import DOCS, PAGES, ROOT, Block, blocks, name, prose

from popmq_cli.main import main

FRAGMENT = re.compile(r"<!-- fragment: ([\w, ]*) -->")
SHELL = ("", "sh", "bash", "console")
PIECES = re.compile(r"\s(?:\||\|\||&&|&|;|>|>>|2>|<|and|or)\s|;$|\s&$")
COMMAND = re.compile(r"^(?:\$ )?(?:sudo )?(?:[A-Z_]+=\S* +)*(?:\S*/)?popmq (?!standalone:)(.*)$")
ELSEWHERE = {"celery", "confluent_kafka"}
"""Of pages on moving: the program before the move, whose library is not installed here."""
PROGRAMS = [block for page in PAGES for block in blocks(page) if block.language == "python"]


def given(block: Block) -> set[str] | None:
    """The names that the line above a fragment says are there; None: it is a whole program."""
    found = FRAGMENT.fullmatch(block.page.read_text().splitlines()[block.line - 2])
    return None if found is None else {part.strip() for part in found[1].split(",")}


def undefined(*texts: str) -> list[set[str]]:
    """Of each text the names that nothing in it makes."""
    found: list[set[str]] = [set() for _ in texts]
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            Path(folder, f"{number}.py").write_text(text)
        options = ["--isolated", "--no-cache", "--select", "F821", "--output-format", "json"]
        command = [sys.executable, "-m", "ruff", "check", *options, folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    for one in json.loads(done.stdout):
        (missing,) = re.findall("`([^`]*)`", one["message"])
        found[int(Path(one["filename"]).stem)].add(missing)
    return found


@cache
def undefined_of() -> dict[Block, set[str]]:
    return dict(zip(PROGRAMS, undefined(*(block.text for block in PROGRAMS)), strict=True))


def missing_imports(text: str, beside: set[str]) -> Iterator[str]:
    """What a program imports and is not there; `beside`: modules that its page has, too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            wanted = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            wanted = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, thing in wanted:
            if module in beside | ELSEWHERE or has(module, thing):
                continue
            yield f"{module}.{thing}" if thing else module


def has(module: str, thing: str) -> bool:
    try:
        found = importlib.import_module(module)
        if not thing or hasattr(found, thing):
            return True
        importlib.import_module(f"{module}.{thing}")
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_a_program_compiles_and_has_its_imports(block: Block) -> None:
    names = given(block)
    flags = 0 if names is None else ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compile(block.text, str(block), "exec", flags | ast.PyCF_ONLY_AST)
    assert undefined_of()[block] == (names or set())
    named = {Path(one.text.partition("\n")[0].removeprefix("# ")).stem for one in PROGRAMS}
    assert list(missing_imports(block.text, named)) == []


def commands(block: Block) -> Iterator[list[str]]:
    """The words behind `popmq` of each command in a block."""
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        line = re.sub(r" +#.*$| {2,}\(.*\)$", "", line)
        for piece in PIECES.split(line):
            found = COMMAND.match(piece.strip())
            if found:
                yield words(found[1])


def words(command: str) -> list[str]:
    """Without the brackets around what may be left out."""
    return shlex.split(re.sub(r"[\[\]…]", "", command))


def complaint(typed: list[str], *, whole: bool = True) -> str:
    """What is wrong with a command; nothing is run. One that is not `whole` may lack arguments."""
    command: click.Command = main
    ctx = click.Context(command, info_name="popmq")
    rest = list(typed)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(ctx, rest[0])
        if found is None:
            return f"there is no command {' '.join(typed)}"
        command, ctx = found, click.Context(found, parent=ctx, info_name=rest.pop(0))
    try:
        options, left, _ = command.make_parser(ctx).parse_args(rest)
        for parameter in command.get_params(ctx):
            value = options.get(parameter.name or "")
            if whole and parameter.required and parameter.value_is_missing(value):
                raise click.MissingParameter(ctx=ctx, param=parameter)
            _check(parameter, value, ctx)
    except click.BadOptionUsage as wrong:
        return wrong.format_message() if whole else ""
    except click.UsageError as wrong:
        return wrong.format_message()
    return f"too much: {left}" if left else ""


def _check(parameter: click.Parameter, value: object, ctx: click.Context) -> None:
    """Raises `click.UsageError`."""
    is_closed = isinstance(parameter.type, click.Choice | click.IntRange | click.FloatRange)
    if isinstance(value, str) and is_closed and not re.fullmatch("[A-Z]", value):
        parameter.type.convert(value, parameter, ctx)


COMMANDS = [
    pytest.param(command, id=f"{block}: {' '.join(command)}")
    for page in PAGES
    for block in blocks(page)
    if block.language in SHELL
    for command in commands(block)
]
NAMED = sorted(
    {
        (name(page), found)
        for page in PAGES
        for found in re.findall(r"`popmq ([a-z][^`\n]*)`", prose(page))
    }
)
"""Commands in a sentence, which leave out what every reader knows."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_parses(command: list[str]) -> None:
    assert complaint(command) == ""


@pytest.mark.parametrize(("page", "command"), NAMED)
def test_a_command_in_a_sentence_exists(page: str, command: str) -> None:
    assert complaint(words(command), whole=False) == ""


def test_there_are_programs_and_commands() -> None:
    assert len(PROGRAMS) > 20
    assert len(COMMANDS) > 30
    assert len(NAMED) > 60
    assert {block.page.name for block in PROGRAMS} >= {"README.md", "sdk.md", "tutorial.md"}


@pytest.mark.parametrize(
    "typed",
    [
        ["no-such"],
        ["topic", "no-such"],
        ["topic", "create", "t", "--no-such"],
        ["topic", "create"],
        ["topic", "create", "t", "u"],
        ["topic", "create", "t", "--type", "BIG"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_is_found(typed: list[str]) -> None:
    assert complaint(typed)


def test_a_program_that_lacks_something_is_found() -> None:
    assert undefined("x = y", "x = 1") == [{"y"}, set()]
    assert list(missing_imports("from popmq import Nothing", set())) == ["popmq.Nothing"]
    assert list(missing_imports("import nothing_here", set())) == ["nothing_here"]
    assert list(missing_imports("from popmq import App", set())) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_variables_and_targets_exist(page: Path) -> None:
    text = page.read_text()
    settings = (DOCS / "configuration.md").read_text()
    variables = set(re.findall(r"\bPOPMQ_(?:NAMESERVER|BROKER|PROXY)_[A-Z0-9_]*[A-Z0-9]\b", text))
    elsewhere = (ROOT / "deploy" / "env.example").read_text()
    unknown = [one for one in variables if f"`{one}`" not in settings and one not in elsewhere]
    assert unknown == []
    targets = " ".join(re.findall(r"^([\w -]+):", (ROOT / "Makefile").read_text(), re.M)).split()
    assert set(re.findall(r"`make ([\w-]+)", text)) - set(targets) == set()
