"""Errors that nobody handles: lines of the service's log, which the next tool can read."""

import asyncio
import io
import json
from collections.abc import Iterator

import pytest
import structlog

from popmq_common.process import logs


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    """What a service writes."""
    before, lines = structlog.get_config(), io.StringIO()
    logs.configure("info", lines, limited=True)
    yield lines
    structlog.configure(**before)


async def test_an_error_of_a_callback_is_a_line_of_the_log(out: io.StringIO) -> None:
    logs.log_unhandled()
    loop = asyncio.get_running_loop()
    for _ in range(3):
        loop.call_soon(json.loads, "{")
    await asyncio.sleep(0)
    (line,) = [json.loads(line) for line in out.getvalue().splitlines()]
    assert line["event"] == "error.unhandled"
    assert line["level"] == "error"
    assert "Exception in callback" in line["reason"]
    assert "JSONDecodeError" in line["exception"]


async def test_what_is_no_error_of_its_own_is_told_too(out: io.StringIO) -> None:
    logs.log_unhandled()
    asyncio.get_running_loop().call_exception_handler({"message": "a task was lost"})
    line = json.loads(out.getvalue())
    assert line["reason"] == "a task was lost"
    assert "exception" not in line
