"""Every command of `popmq`, found by walking its tree: help, JSON, and what it does with junk."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from popmq.testing import PopmqBroker
from popmq_cli.main import COMMANDS as NAMED
from popmq_cli.main import SECTIONS, main
from popmq_cli.shell.commands import ServerOption

JUNK = (
    "",
    " ",
    "junk",
    "-1",
    "0",
    "1",
    "1.5",
    "99999999999999999999",
    "1e999",
    "nan",
    "999999999d",
    "0001-01-01",
    "a:b:c",
    "{}",
    "../..",
    "%",
    "ü\u2028",
    "\udcff",
    "x" * 5_000,
)
"""Wrong for most options, right for some."""
GIVEN = {
    "type": "NORMAL",
    "shell": "bash",
    "allowed": "read-write",
    "names": "Topic:t",
    "resource": "Topic:t",
    "actions": "Pub",
    "decision": "allow",
}
"""What a required argument needs to get further than itself."""
ENDLESS = {
    "popmq standalone": "a service",
    "popmq nameserver": "a service",
    "popmq broker": "a service",
    "popmq proxy": "a service",
    "popmq console": "a service",
    "popmq demo": "a service",
    "popmq run": "an application",
    "popmq tail": "until Ctrl-C",
    "popmq top": "until q",
    "popmq bench": "as much load as is asked for",
    "popmq quickstart": "takes no option but --json",
}
"""Of these the options are read, and nothing runs."""
WITHOUT_JSON = {
    "popmq completion": "a script",
    "popmq nameserver": "a service",
    "popmq broker": "a service",
    "popmq proxy": "a service",
    "popmq run": "an application, which prints what it likes",
}


def tree() -> Iterator[tuple[str, click.Context]]:
    """Each command and group by its name, with a context to ask for help in."""
    waiting = [("popmq", click.Context(main, info_name="popmq"))]
    while waiting:
        name, context = waiting.pop(0)
        yield name, context
        if isinstance(context.command, click.Group):
            for word in context.command.list_commands(context):
                command = context.command.get_command(context, word)
                assert command is not None
                sub = click.Context(command, info_name=word, parent=context)
                waiting.append((f"{name} {word}", sub))


TREE = dict(tree())
COMMANDS = {
    name: context for name, context in TREE.items() if not isinstance(context.command, click.Group)
}


@pytest.fixture(scope="module")
def server() -> Iterator[PopmqBroker]:
    with PopmqBroker(disk_clean_percent=100) as broker:
        broker.send("t", "1")
        broker.receive("t", "g")
        yield broker


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POPMQ_CONFIG_DIR", str(tmp_path / "contexts"))


def invoke(name: str, *arguments: str) -> Result:
    words = name.split()[1:]
    return CliRunner().invoke(main, [*words, *arguments])


def options(context: click.Context) -> list[click.Option]:
    return [param for param in context.command.params if isinstance(param, click.Option)]


def quick(name: str) -> list[str]:
    """Does not wait."""
    return {"popmq receive": ["--wait=0"], "popmq cluster status": ["--over=100ms"]}.get(name, [])


def needed(context: click.Context) -> list[str]:
    """What cannot be left out."""
    words: list[str] = []
    for param in context.command.params:
        value = GIVEN.get(param.name or "", "0")
        if isinstance(param, click.Argument) and param.required:
            words.append(value)
        elif isinstance(param, click.Option) and param.required:
            words += [param.opts[0], value]
    return words


@pytest.mark.parametrize("name", TREE)
def test_help_reads_well(name: str) -> None:
    """Whole sentences, no line wider than a terminal, every option explained."""
    context = TREE[name]
    shown = invoke(name, "--help")
    assert shown.exit_code == 0
    assert context.command.help, name
    first = context.command.help.strip().split("\n\n")[0]
    assert first.endswith("."), f"{name}: a sentence ends with a full stop"
    assert first[0].isupper(), name
    assert len(first.split(".")[0]) < 80, f"{name}: the first sentence is short"
    assert not [line for line in shown.output.splitlines() if len(line) > 80], name
    for option in options(context):
        text = option.help or ""
        assert len(text) > 8, f"{name} {option.opts[0]} needs help"
        assert text[0].isupper(), f"{name} {option.opts[0]}: {text}"
        assert text.rstrip().endswith((".", ")", "]")), f"{name} {option.opts[0]}: {text}"
        metavar = option.make_metavar(context)
        assert "RANGE" not in metavar, f"{name} {option.opts[0]} has a word for its value"
    odd = re.findall(r"(?i)so (?:many|long|much)|comes again|at most so", shown.output)
    assert not odd, f"{name}: {odd}"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_options_alone_and_where_the_server_is(name: str) -> None:
    """Arguments are told in the text: newer versions of click list them among the options."""
    shown = invoke(name, "--help").output
    listed = re.findall(r"^  (\S+)", shown.partition("Options:\n")[2], re.MULTILINE)
    assert all(word.startswith("-") for word in listed), listed
    if _is_client(COMMANDS[name]):
        server = shown.partition("\nServer:\n")[2]
        told = " ".join(server.split())
        assert re.search(r"--endpoint HOST:PORT .*\[env var: POPMQ_ENDPOINT; default: ", told)
        assert "--tls Connect with TLS." in told
        assert re.search(r"--tls-ca FILE .*\[env var: POPMQ_TLS_CA\]", told)
        assert re.search(r"--tls-key FILE .*\[env var: POPMQ_TLS_KEY\]", told)
        assert re.search(r"--context NAME .*\[env var: POPMQ_CONTEXT\]", told)
        assert re.search(r"--access-key, --user NAME .*\[env var: POPMQ_ACCESS_KEY\]", told)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_prints_data_speaks_json(name: str) -> None:
    has_json = any("--json" in option.opts for option in options(COMMANDS[name]))
    assert has_json != (name in WITHOUT_JSON)


def test_every_command_has_a_place_in_the_help() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(NAMED)
    for name, context in COMMANDS.items():
        if len(name.split()) > 2:  # where the help of a group lists its commands
            short = context.command.get_short_help_str(limit=62)
            assert not short.endswith("..."), f"{name}: {short}"


def junk_of(context: click.Context) -> Iterator[list[str]]:
    """The command with junk in one of its options or arguments at a time."""
    words = needed(context)
    for option in options(context):
        if not option.is_flag and option.opts[0] != "--endpoint":
            for junk in JUNK:
                yield [*words, f"{option.opts[0]}={junk}"]
    arguments = [param for param in context.command.params if isinstance(param, click.Argument)]
    for at in range(len(arguments)):
        for junk in JUNK:
            given = [*words[:at], junk, *words[at + 1 :]]
            yield [*given[len(arguments) :], "--", *given[: len(arguments)]]


@pytest.mark.parametrize("name", COMMANDS)
def test_junk_is_told_and_never_a_traceback(
    server: PopmqBroker, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some make files
    context = COMMANDS[name]
    for words in junk_of(context):
        if name in ENDLESS:
            _parse(context, words)
            continue
        at = [] if not _is_client(context) else ["--endpoint", server.endpoint]
        if any("--yes" in option.opts for option in options(context)):
            at.append("--yes")
        at += quick(name)
        for json_too in ([], ["--json"]) if name not in WITHOUT_JSON else ([],):
            _judge(name, [*at, *json_too, *words], as_json=bool(json_too))


def _is_client(context: click.Context) -> bool:
    return any(isinstance(option, ServerOption) for option in options(context))


def _parse(context: click.Context, words: list[str]) -> None:
    """What is wrong is a usage error, which click tells."""
    with suppress(click.ClickException):
        context.command.make_context(context.info_name, list(words), parent=context.parent)


def _judge(name: str, words: list[str], *, as_json: bool) -> None:
    done = invoke(name, *words)
    what = f"{name} {[word[:40] for word in words]}: {done.output[-2_000:]}"
    assert done.exception is None or isinstance(done.exception, SystemExit), what
    assert done.exit_code in (0, 1, 2, *[3] * (name == "popmq health")), what
    assert "Traceback" not in done.output, what
    if as_json:
        for line in lines(done.stdout):
            json.loads(line)
        _judge_error(done, what)
    elif done.exit_code:
        assert done.output.strip(), what


def lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line]


def _judge_error(done: Result, what: str) -> None:
    """One object on stderr, when there is an error; nothing else is written there."""
    found = lines(done.stderr)
    if done.exit_code == 2:
        assert found, what
    assert len(found) <= 1, what
    for line in found:
        told: dict[str, Any] = json.loads(line)
        assert told["error"], what
        assert told["exitCode"] == done.exit_code, what


@pytest.mark.parametrize("name", [name for name, one in COMMANDS.items() if _is_client(one)])
def test_where_no_server_is_it_says_so(name: str) -> None:
    if name in ("popmq run", "popmq console", "popmq doctor"):  # wait for it, explain it
        return
    done = invoke(name, "--endpoint", "127.0.0.1:1", "--json", *needed(COMMANDS[name]))
    if done.exit_code == 2:  # it needs more than what cannot be left out
        return
    told = json.loads(done.stderr)
    assert told["exitCode"] == done.exit_code == 3
    assert "popmq standalone" in told["error"]
