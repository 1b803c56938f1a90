"""What the SDK logs, read by a formatter as the documentation has it."""

import ast
import asyncio
import json
import logging
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from integration.served import running, serving, until

from popmq import App, Client, ReceivedMessage, Reject, Retry
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
        "logger": "popmq.app.handling",
        "text": f"bill failed on message {message_id} of orders, attempt 1: "
        "ValueError: no such customer; next delivery in 3600 s",
        "topic": "orders",
        "group": "billing",
        "broker": "broker-a",
        "message_id": message_id,
        "attempt": 1,
        "next_delay_s": 3600,
        "error": "ValueError",
        "reason": "no such customer",
    }
    assert "secret" not in json.dumps(logged.lines)


FAILURES: list[tuple[Exception, str, int, str]] = [
    (ValueError("bad"), "ERROR", 1, "attempt 1: ValueError: bad; next delivery in 1 s"),
    (ValueError("bad"), "ERROR", 2, "attempt 2: ValueError: bad; next delivery in 5 s"),
    (ValueError("bad"), "ERROR", 3, "attempt 3: ValueError: bad; dead letter"),
    (Retry(7, "busy"), "INFO", 1, "attempt 1: Retry: busy; next delivery in 7 s"),
    (Retry(reason="busy"), "INFO", 1, "attempt 1: Retry: busy; next delivery in 1 s"),
    (Retry(7, "busy"), "ERROR", 3, "attempt 3: Retry: busy; dead letter"),
    (Retry(7, "busy", counted=False), "INFO", 3, "attempt 3: Retry: busy; next delivery in 7 s"),
    (Reject("no order"), "ERROR", 1, "attempt 1: Reject: no order; dead letter"),
]


@pytest.mark.parametrize(("failure", "level", "attempt", "words"), FAILURES)
async def test_what_becomes_of_a_message_is_told(
    failure: Exception,
    level: str,
    attempt: int,
    words: str,
    popmq_broker: PopmqBroker,
    logged: Lines,
) -> None:
    """By the group's own policy, where neither the handler nor its error has a delay."""
    popmq_broker.create_group("billing", max_attempts=3, retry=[1, 5])
    popmq_broker.send("orders", "1")
    for _ in range(attempt - 1):
        (message,) = popmq_broker.receive("orders", "billing")
        popmq_broker.nack(message, 0)
    app = App(popmq_broker.endpoint)

    @app.handler("orders", "billing")
    async def bill(message: ReceivedMessage) -> None:
        raise failure

    logger = logging.getLogger("popmq.app.handling")
    logger.setLevel(logging.INFO)
    try:
        async with app:
            await until(lambda: bool(logged.lines))
            await popmq_broker.drained()
    finally:
        logger.setLevel(logging.NOTSET)
    (line,) = logged.lines
    assert line["text"].endswith(words)
    assert line["level"] == level
    assert line.get("dead_letter", False) == words.endswith("dead letter")
    assert len(popmq_broker.dead_letters("billing")) == words.endswith("dead letter")


async def test_a_connection_is_lost_in_one_line_and_back_in_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "popmq")

    def said(what: str) -> list[str]:
        return [one.getMessage() for one in caplog.records if what in one.getMessage()]

    async with AsyncExitStack() as stack:
        async with serving(tmp_path / "one") as endpoint:
            port = int(endpoint.rpartition(":")[2])
            app = App(endpoint)
            handled: list[bytes] = []

            @app.handler("orders", "billing")
            async def bill(body: bytes) -> None:
                handled.append(body)

            app.handler("orders", "reports")(bill)
            await stack.enter_async_context(app)
        await until(lambda: bool(said("no answer from")))
        async with serving(tmp_path / "two", port), Client(endpoint) as client:
            await until(lambda: bool(said("answers again")))
            await client.send("orders", b"1")
            await until(lambda: len(handled) == 2)
            await stack.aclose()
    assert len(said("no answer from")) == 1
    assert len(said(f"{endpoint} answers again, after")) == 1
    warnings = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert [one.name for one in warnings] == ["popmq.connection.connection"]


async def test_a_server_that_is_away(logged: Lines) -> None:
    app = App("127.0.0.1:1", request_timeout_s=0.1)

    @app.handler("orders", "billing")
    async def bill(message: ReceivedMessage) -> None: ...

    async with running(app):
        await until(lambda: bool(logged.lines))
    (line,) = logged.lines
    assert (line["level"], line["logger"]) == ("WARNING", "popmq.connection.connection")
    assert "127.0.0.1:1" in line["text"]


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
