"""Checksums of JSON files: every flipped bit is told, or leaves the text as it was."""

import json

import pytest

from popmq_broker.core.store.json_checksum import sign, verify

TEXT = '{\n "topicConfigTable": {"é": {"perm": 6}}\n}\n'


@pytest.mark.parametrize("text", [TEXT, "{}", '{"a": {}}', '{"a": [1]}  \n'])
def test_what_was_signed_is_read_the_same(text: str) -> None:
    signed = sign(text)
    assert json.loads(verify(signed)) == json.loads(text)
    seen_by_others = json.loads(signed)
    assert set(seen_by_others) - set(json.loads(text)) == {"popmqCrc32"}


@pytest.mark.parametrize("text", ["{", "7", "[]"])
def test_what_is_no_object_has_none(text: str) -> None:
    assert verify(sign(text)) == text


def test_what_somebody_else_wrote_has_none() -> None:
    assert verify(TEXT.encode()) == TEXT


def test_every_flipped_bit() -> None:
    signed = sign(TEXT)
    told = 0
    for at in range(8 * len(signed)):
        damaged = bytearray(signed)
        damaged[at // 8] ^= 1 << at % 8
        try:
            found = json.loads(verify(bytes(damaged)))
        except ValueError:
            told += 1
            continue
        found = {name: value for name, value in found.items() if "topic" in name}
        assert found == json.loads(TEXT)
    assert told > 8 * len(TEXT) - 8 * len("\n}\n")  # all of what it covers
