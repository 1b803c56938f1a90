"""A manifest is held against its files, and its seal against the operator's key."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness.log_writer import LogWriter

from popmq_pipelines.export.snapshot_writer import export
from popmq_pipelines.snapshot import proof, seal
from popmq_pipelines.snapshot.manifest import MANIFEST, load
from popmq_pipelines.snapshot.seal import KEY_FILE, SEAL, BadKey

KEY = b"0123456789abcdef"
Fields = dict[str, Any]


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    log = LogWriter(tmp_path / "data")
    for number in range(5):
        log.send(f"m{number}")
    log.ack(log.pop(0, 1, 2))
    log.save_offsets()
    export(log.data_dir, tmp_path / "s", "s1", KEY)
    return tmp_path / "s"


def rows(fields: Fields) -> None:
    fields["files"]["pop_acks"]["rows"] += 1


def least(fields: Fields) -> None:
    fields["files"]["pop_acks"]["log_offset_min"] -= 1


def greatest(fields: Fields) -> None:
    fields["files"]["commitlog_index"]["queue_offset_max"] += 1


def begins_later(fields: Fields) -> None:
    fields["log_from"] += 1


def ends_earlier(fields: Fields) -> None:
    fields["log_end"] -= 1


def ends_later(fields: Fields) -> None:
    fields["log_end"] += 1


def last_is_another(fields: Fields) -> None:
    fields["log_last"] -= 1


def of_long_ago(fields: Fields) -> None:
    fields["as_of_ms"] -= proof.AS_OF_BEHIND_MS_MAX + 1


def positions_of_later(fields: Fields) -> None:
    fields["offsets_log_end"] = fields["log_end"] + 1


LIES: dict[Callable[[Fields], None], str] = {
    rows: "pop_acks has 3 rows, its manifest says 4",
    least: "pop_acks: log_offset_min is",
    greatest: "commitlog_index: queue_offset_max is 4, its manifest says 5",
    begins_later: "its manifest says that they lie between 1 and",
    ends_earlier: "the manifest says that the log ends at",
    ends_later: "the manifest says that the log ends at",
    last_is_another: "the last record is at log offset",
    of_long_ago: "and a record was stored at",
    positions_of_later: "the positions rest on the log up to",
}


def test_a_true_manifest_has_no_problems(snapshot: Path) -> None:
    assert proof.problems(snapshot, load(snapshot)) == []


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_lie_is_named(snapshot: Path, lie: Callable[[Fields], None]) -> None:
    fields = json.loads((snapshot / MANIFEST).read_text())
    lie(fields)
    (snapshot / MANIFEST).write_text(json.dumps(fields))
    found = proof.problems(snapshot, load(snapshot))
    assert any(LIES[lie] in text for text in found), found


def sealed(snapshot: Path, key: bytes | None) -> list[str]:
    return seal.problems(snapshot, (snapshot / MANIFEST).read_bytes(), key)


def test_the_seal_is_of_the_manifest_and_the_key(snapshot: Path) -> None:
    assert sealed(snapshot, KEY) == []
    assert sealed(snapshot, None) == []
    assert "not of this manifest and this key" in sealed(snapshot, KEY[::-1])[0]
    path = snapshot / MANIFEST
    path.write_text(path.read_text().replace('"s1"', '"s2"'))
    assert "not of this manifest and this key" in sealed(snapshot, KEY)[0]
    (snapshot / SEAL).unlink()
    assert "without the key" in sealed(snapshot, KEY)[0]


def test_the_key_is_a_file_that_a_variable_names(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(KEY + b"\n")
    assert seal.key_of({KEY_FILE: str(tmp_path / "key")}) == KEY
    assert seal.key_of({}) is None
    (tmp_path / "short").write_bytes(b"short")
    with pytest.raises(BadKey, match="at least 16 are needed"):
        seal.key_of({KEY_FILE: str(tmp_path / "short")})
    with pytest.raises(BadKey, match="No such file"):
        seal.key_of({KEY_FILE: str(tmp_path / "nowhere")})
