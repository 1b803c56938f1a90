"""The register's record: read as it was written; what cannot be one is refused by name."""

import json
from dataclasses import replace
from typing import Any

import pytest

from popmq_broker.core.replication.group_record import GroupRecord, decode, encode
from popmq_common.errors import RegisterRecordUnreadable

RECORD = GroupRecord(
    epoch=3,
    primary="a2",
    address="10.0.0.2:10911",
    identity="5f0c",
    in_sync={"a1": "77b1", "a2": "c09e"},
    min_in_sync=2,
    began_ms=1_764_065_412_000,
)


def test_a_record_is_read_as_it_was_written() -> None:
    assert decode(encode(RECORD), where="here") == RECORD
    one = replace(RECORD, in_sync={"a2": "c09e"}, min_in_sync=1)
    assert decode(encode(one), where="here") == one


def test_the_same_record_has_the_same_bytes() -> None:
    other = replace(RECORD, in_sync={"a2": "c09e", "a1": "77b1"})
    assert encode(other) == encode(RECORD)


def test_a_member_is_a_directory_not_a_name() -> None:
    assert RECORD.counts("a1", "77b1")
    assert not RECORD.counts("a1", "c09e")
    assert not RECORD.counts("a3", "77b1")


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 2},
        {"format": None},
        {"epoch": 0},
        {"epoch": "three"},
        {"epoch": None},
        {"primary": ""},
        {"primary": "a9"},
        {"inSync": []},
        {"inSync": "a1"},
        {"inSync": {}},
        {"inSync": None},
        {"minInSync": 0},
        {"minInSync": [1]},
        {"beganMs": "soon"},
    ],
)
def test_a_record_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    fields = json.loads(encode(RECORD)) | changes
    with pytest.raises(RegisterRecordUnreadable, match="/popmq/x"):
        decode(json.dumps(fields).encode(), where="/popmq/x")


@pytest.mark.parametrize("name", sorted(json.loads(encode(RECORD)).keys() - {"forcedEpoch"}))
def test_a_record_without_a_field_is_refused(name: str) -> None:
    fields = json.loads(encode(RECORD))
    del fields[name]
    with pytest.raises(RegisterRecordUnreadable):
        decode(json.dumps(fields).encode(), where="here")


@pytest.mark.parametrize("value", [b"", b"null", b"[]", b"7", b"\xff\xfe", b'"x"'])
def test_what_is_no_record_is_refused(value: bytes) -> None:
    with pytest.raises(RegisterRecordUnreadable):
        decode(value, where="here")
