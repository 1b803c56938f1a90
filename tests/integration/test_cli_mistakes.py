"""What users get wrong on the command line is told in a line that says what to do; never a
traceback."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from integration.served import popmq
from integration.test_every_command import COMMANDS, needed, quick

from popmq.testing import PopmqBroker
from popmq_cli.main import main

NAMESERVERS = {"POPMQ_BROKER_NAMESERVERS": "127.0.0.1:1", "POPMQ_PROXY_NAMESERVERS": "127.0.0.1:1"}
PORTS = {
    "nameserver": ["POPMQ_NAMESERVER_PORT"],
    "broker": ["POPMQ_BROKER_PORT", "POPMQ_BROKER_METRICS_PORT"],
    "proxy": ["POPMQ_PROXY_PORT", "POPMQ_PROXY_TLS_PORT", "POPMQ_PROXY_METRICS_PORT"],
    "standalone": ["POPMQ_BROKER_PORT", "POPMQ_BROKER_METRICS_PORT", "POPMQ_PROXY_METRICS_PORT"],
}


@pytest.fixture(scope="module")
def server() -> Iterator[PopmqBroker]:
    with PopmqBroker(disk_clean_percent=100) as broker:
        yield broker


def ends(*arguments: str, code: int, **variables: str) -> str:
    """What a command that cannot work says on stderr."""
    done = CliRunner().invoke(main, arguments, env={**NAMESERVERS, **variables})
    assert done.exit_code == code, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert "Traceback" not in done.output
    return done.stderr


@pytest.mark.parametrize("port", ["99999", "-1", "http"])
@pytest.mark.parametrize(
    ("service", "variable"), [(name, one) for name, all_of in PORTS.items() for one in all_of]
)
def test_a_port_that_is_none(tmp_path: Path, service: str, variable: str, port: str) -> None:
    folder = {"POPMQ_BROKER_DATA_DIR": str(tmp_path), variable: port}
    told = ends(service, code=2, **folder)
    assert told.startswith(f"popmq: {variable}={port!r}: ")
    assert told.count("\n") == 1


def test_a_data_directory_that_cannot_be_made() -> None:
    told = "popmq: it cannot start: No such file or directory: /proc/foo\n"
    assert ends("standalone", "--port", "0", "--data-dir", "/proc/foo", code=1) == told
    assert ends("broker", code=1, POPMQ_BROKER_DATA_DIR="/proc/foo") == told


def test_options_of_standalone_that_cannot_be() -> None:
    assert "99999 is not in the range" in ends("standalone", "--port", "99999", code=2)
    assert "'foo' is not one of" in ends("standalone", "--log-level", "foo", code=2)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["tpic"], "Did you mean topic or"),
        (["explan", "x"], "Did you mean explain or"),
        (["topic", "lst"], "Did you mean list or"),
        (["dlq", "purg", "g"], "Did you mean purge?"),
        (["send", "t", "x", "--dely", "5s"], "'--delay'"),
        (["qqqq"], "No such command 'qqqq'.\n"),
    ],
)
def test_a_word_that_is_nearly_right(words: list[str], meant: str) -> None:
    assert meant in ends(*words, code=2)
    told = json.loads(ends(*words, "--json", code=2))
    assert told["exitCode"] == 2
    assert meant.strip() in told["error"]


def test_a_permission_for_nobody(server: PopmqBroker) -> None:
    at = ("--endpoint", server.endpoint)
    told = popmq("permission", "foo", "read", *at, code=1).stderr
    assert told == "popmq: There is no broker foo; the brokers are broker-a.\n"
    assert (
        "'write' is not one of 'read', 'read-write'"
        in popmq("permission", "broker-a", "write", *at, code=2).stderr
    )
    unanswered = ends("permission", "foo", "read", "--endpoint", "127.0.0.1:1", code=3)
    assert unanswered.startswith("popmq: no server answers at 127.0.0.1:1: ")


MORE = {
    "popmq receive": [["t", "--group=g2"]],
    "popmq send": [["t", "1", "--key=17"], ["t", "later", "--delay=1h"]],
    "popmq group create": [["g3", "--from=2020-01-01", "--retry-policy=1s,2s"]],
    "popmq group set": [["g", "--max-attempts=7"]],
    "popmq group show": [["g"]],
    "popmq group reset-offset": [["g", "t", "--to-earliest", "--dry-run"]],
    "popmq topic create": [["made", "--queues=2"]],
    "popmq topic set": [["t", "--queues=9"]],
    "popmq topic show": [["t"]],
    "popmq topic spread": [["--all"]],
    "popmq dlq list": [["g"]],
    "popmq dlq redrive": [["g", "--all", "--dry-run"]],
    "popmq dlq purge": [["g", "--all", "--dry-run"]],
    "popmq message find": [["t", "--key=k"]],
    "popmq message get": [["t", "0:0"]],
    "popmq bench": [["--count=40"]],
    "popmq top": [["--once", "--every=200ms"]],
    "popmq store rebuild": [["--topic=t", "--queue=0"]],
}
"""What a command needs to have something to tell."""
NOT_RUN = {
    "popmq standalone": "runs until it is stopped",
    "popmq tail": "runs until it is stopped",
    "popmq quickstart": "starts a server",
    "popmq health": "asks a service",
    "popmq console": "runs until it is stopped",
    "popmq demo": "runs until it is stopped",
}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
TEXTS = {
    *("body", "deleted", "keys", "messageId", "name", "removed", "target", "user", "username"),
    *("value", "version"),
}
"""May be digits."""


def numbers_as_text(value: Any, name: str = "") -> Iterator[str]:
    """Names of what looks like a number and is a text."""
    match value:
        case dict():
            for inner, one in value.items():
                yield from numbers_as_text(one, inner)
        case list():
            for one in value:
                yield from numbers_as_text(one, name)
        case str() if NUMBER.fullmatch(value) and name not in TEXTS:
            yield f"{name}={value!r}"


def speaks_json(name: str) -> bool:
    options = (one for one in COMMANDS[name].command.params if isinstance(one, click.Option))
    return name not in NOT_RUN and any("--json" in option.opts for option in options)


@pytest.mark.parametrize("name", [name for name in COMMANDS if speaks_json(name)])
def test_numbers_are_numbers_in_json(
    server: PopmqBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("POPMQ_CONFIG_DIR", str(tmp_path / "contexts"))
    monkeypatch.chdir(tmp_path)
    server.send("t", "1", keys=["k"])
    for message in server.receive("t", "g")[:1]:
        server.reject(message, "no")
    context = COMMANDS[name]
    options = {word for one in context.command.params for word in one.opts}
    at = [f"--endpoint={server.endpoint}"] if "--endpoint" in options else []
    at += ["--yes"] if "--yes" in options else []
    shown = 0
    for words in MORE.get(name, [needed(context)]):
        done = CliRunner().invoke(main, [*name.split()[1:], *words, *quick(name), *at, "--json"])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        for line in filter(None, done.stdout.split("\n")):
            shown += 1
            assert list(numbers_as_text(json.loads(line))) == []
    assert shown or name not in MORE, "it says nothing"
