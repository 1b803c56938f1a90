"""Reasons, and files that a spreadsheet opens without running anything."""

import csv
import io
import json

import pytest

from popmq_admin.v1 import admin_pb2 as admin
from popmq_console.reading.dead_letters import (
    FIELDS,
    as_csv,
    as_json_lines,
    outcome_of,
    reasons,
    safe_cell,
)


def letter(reason: str, stored_ms: int = 1, **more: object) -> admin.DeadLetter:
    values = {"message_id": "m", "topic": "t", "broker": "a", "attempts": 2, **more}
    return admin.DeadLetter(reason=reason, stored_ms=stored_ms, **values)  # type: ignore[arg-type]


def test_letters_are_counted_by_their_whole_reason() -> None:
    found = reasons(
        [
            letter("timeout", 5),
            letter("timeout of the bank", 2),
            letter("timeout", 1, redriven=True),
            letter("", 9),
        ]
    )
    assert [(one.text, one.count, one.open) for one in found] == [
        ("timeout", 2, 1),
        ("", 1, 1),
        ("timeout of the bank", 1, 1),
    ]
    assert (found[0].oldest_ms, found[0].newest_ms) == (1, 5)
    assert found[1].label == "(no reason given)"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_formula_is_shown_and_not_computed(text: str) -> None:
    assert safe_cell(text) == f"'{text}"
    (row,) = list(csv.reader(io.StringIO(as_csv([letter(text)], with_head=False))))
    assert row[FIELDS.index("reason")].startswith("'")


def test_harmless_cells_stay() -> None:
    assert [safe_cell(one) for one in ("a=b", 7, True, "")] == ["a=b", "7", "True", ""]


def test_cells_with_commas_quotes_and_line_ends_come_back() -> None:
    text = as_csv([letter('a,"b"\nc', body=b"x,y")], with_head=True)
    head, row = list(csv.reader(io.StringIO(text)))
    assert tuple(head) == FIELDS
    assert dict(zip(head, row, strict=True))["reason"] == 'a,"b"\nc'


def test_a_body_that_is_no_text_is_hexadecimal() -> None:
    (line,) = as_json_lines([letter("r", body=b"\xff\x00")]).splitlines()
    assert json.loads(line)["body"] == "hex:ff00"
    assert json.loads(line)["handedOut"] == 2


def test_outcomes() -> None:
    done = admin.RedriveDeadLettersResponse
    assert outcome_of(done(sent=1)) == "sent"
    assert "before" in outcome_of(done(already=1))
    assert "order" in outcome_of(done(in_order=1))
    assert "topic" in outcome_of(done(without_topic=1))
    assert "no longer" in outcome_of(done())
