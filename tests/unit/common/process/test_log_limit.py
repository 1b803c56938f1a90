"""What is logged again and again: the first line of it, then how often, once a minute."""

import io
import json
from typing import Any

import pytest
import structlog

from popmq_common.process import log_limit, logs
from popmq_common.process.log_limit import WINDOW_S, LogLimit


def line(event: str = "disk.slow", **fields: Any) -> dict[str, Any]:
    return {"event": event, "level": "warning", **fields}


def test_the_first_of_many_comes_and_then_a_count_each_minute() -> None:
    limit = LogLimit()
    assert limit.admits(line(path="a"), 0)
    assert not any(limit.admits(line(path="a"), second / 10) for second in range(1, 500))
    assert limit.ended(WINDOW_S - 1) == []
    assert limit.ended(WINDOW_S) == [line(path="a", repeated=499, in_s=60)]
    assert not limit.admits(line(path="a"), WINDOW_S + 1)
    assert limit.ended(2 * WINDOW_S) == [line(path="a", repeated=1, in_s=60)]


def test_what_has_stopped_is_new_when_it_comes_again() -> None:
    limit = LogLimit()
    limit.admits(line(), 0)
    assert limit.ended(WINDOW_S) == []
    assert limit.admits(line(), WINDOW_S + 1)


def test_other_fields_make_another_line_up_to_a_number_per_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_limit, "EVENT_LINES_MAX", 10)
    limit = LogLimit()
    assert sum(limit.admits(line("link.refused", peer=i), 0) for i in range(500)) == 10
    assert limit.admits(line("another", peer=1), 0)
    (ended,) = limit.ended(WINDOW_S)
    assert ended == line("link.refused", repeated=490, in_s=60, means="lines of this event")


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_limit, "KEYS_MAX", 100)
    limit = LogLimit()
    for i in range(10_000):
        limit.admits(line(f"event {i}", value=i), 0)
    assert limit.key_count <= 100


def errors(limit: LogLimit, text: str) -> bool:
    try:
        raise ValueError(text)
    except ValueError as error:
        return limit.admits({**line("rpc.failed"), "exc_info": error}, 0)


def test_errors_of_one_place_are_one_whatever_their_words_and_are_counted_without_traceback() -> (
    None
):
    limit = LogLimit()
    assert errors(limit, "offset 1")
    assert not errors(limit, "offset 2")
    assert limit.admits({**line("rpc.failed"), "exc_info": KeyError()}, 0)
    (ended,) = limit.ended(WINDOW_S)
    assert ended == line("rpc.failed", error="ValueError: offset 1", repeated=1, in_s=60)


def test_a_service_logs_a_flood_once_and_a_tool_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(logs, "_now_s", lambda: now_s[0])
    before = structlog.get_config()
    try:
        counts = []
        for limited in (True, False):
            out = io.StringIO()
            logs.configure("info", out, limited=limited)
            log = logs.get("broker")
            for _ in range(50):
                log.warning("disk.slow", path="a")
            now_s[0] += WINDOW_S
            log.info("another")
            lines = [json.loads(text) for text in out.getvalue().splitlines()]
            counts.append([one["event"] for one in lines].count("disk.slow"))
            if limited:
                assert lines[1]["repeated"] == 49
                assert lines[1]["timestamp"]
        assert counts == [2, 50]
    finally:
        structlog.configure(**before)
