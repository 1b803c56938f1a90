"""What the SDK logs, read by a formatter as the documentation has it."""

import ast
import asyncio
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.served import running, until

from popmq import App, ReceivedMessage
from popmq.log_fields import FIELDS, fields
from popmq.testing import PopmqBroker

ROOT = Path(__file__).resolve().parents[2]


class Lines(logging.Handler):
    """Keeps what the formatter makes."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@pytest.fixture
def logged() -> Iterator[Lines]:
    text = (ROOT / "docs" / "observability.md").read_text()
    found = re.search(r"```python\n(import json\n.*?)\n\n\nhandler = ", text, re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    lines, logger = Lines(), logging.getLogger("popmq")
    lines.setFormatter(names["JsonLines"]())
    logger.addHandler(lines)
    yield lines
    logger.removeHandler(lines)


async def test_a_handler_that_fails(popmq_broker: PopmqBroker, logged: Lines) -> None:
    app = App(popmq_broker.endpoint)

    @app.handler("orders", "billing", retry=[3600])
    async def bill(message: ReceivedMessage) -> None:
        raise ValueError("no such customer")

    message_id = popmq_broker.send("orders", "secret")
    async with running(app):
        await until(lambda: bool(logged.lines))
        await asyncio.sleep(0)
    (line,) = logged.lines
    assert "ValueError: no such customer" in line.pop("traceback")
    assert line == {
        "level": "ERROR",
        "logger": "popmq.handling",
        "text": f"message {message_id} of orders",
        "topic": "orders",
        "group": "billing",
        "broker": "broker-a",
        "message_id": message_id,
        "attempt": 1,
        "error": "ValueError",
        "reason": "no such customer",
    }
    assert "secret" not in json.dumps(logged.lines)


async def test_a_server_that_is_away(logged: Lines) -> None:
    app = App("127.0.0.1:1", request_timeout_s=0.1)

    @app.handler("orders", "billing")
    async def bill(message: ReceivedMessage) -> None: ...

    async with running(app):
        await until(lambda: bool(logged.lines))
    line = logged.lines[0]
    assert (line["level"], line["topic"], line["error"]) == (
        "WARNING",
        "orders",
        "ServerUnreachable",
    )
    assert "127.0.0.1:1" in line["reason"]


def test_the_library_installs_no_handler() -> None:
    """And sets no level: that is the application's business."""
    loggers = [one for name, one in logging.root.manager.loggerDict.items() if name[:5] == "popmq"]
    assert loggers
    for logger in loggers:
        if isinstance(logger, logging.Logger):
            assert (logger.handlers, logger.level) == ([], logging.NOTSET), logger.name


def test_fields_are_those_that_are_told() -> None:
    assert fields(None, "why", topic="t", group="g", broker="b").keys() < set(FIELDS)
    assert fields() == {}
    assert fields(None, TimeoutError("late")) == {"error": "TimeoutError", "reason": "late"}


@pytest.mark.parametrize("path", sorted((ROOT / "sdk").rglob("*.py")), ids=lambda path: path.stem)
def test_whatever_is_worth_a_look_says_what_it_is_about(path: Path) -> None:
    """Warnings and errors have `extra`, as FIELDS."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner, level = node.func.value, node.func.attr
        if (
            isinstance(owner, ast.Name)
            and owner.id == "log"
            and level in ("warning", "error", "exception")
        ):
            assert "extra" in {keyword.arg for keyword in node.keywords}, f"{path}:{node.lineno}"
