"""A snapshot is believed only when all of it is there, as it was written."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from harness.log_writer import LogWriter, resign

from popmq_broker.core.store.snapshot_id import make_id
from popmq_pipelines.export.snapshot_writer import export
from popmq_pipelines.snapshot.chain import follow
from popmq_pipelines.snapshot.manifest import MANIFEST, NoSnapshot, load


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    log = LogWriter(tmp_path / "data")
    log.send("m0")
    log.ack(log.pop(0))
    log.save_offsets()
    export(log.data_dir, tmp_path / "snap", "s1")
    return tmp_path / "snap"


def test_a_whole_one(snapshot: Path) -> None:
    assert follow(snapshot).problems == []


def change(snapshot: Path, **fields: object) -> None:
    told = json.loads((snapshot / MANIFEST).read_text())
    (snapshot / MANIFEST).write_text(json.dumps({**told, **fields}))


def drop_a_file(snapshot: Path) -> None:
    (snapshot / "position_moves.parquet").unlink()


def change_a_file(snapshot: Path) -> None:
    with open(snapshot / "pop_acks.parquet", "ab") as file:
        file.write(b"x")


def swap_two_files(snapshot: Path) -> None:
    (snapshot / "pop_acks.parquet").write_bytes((snapshot / "pop_checkpoints.parquet").read_bytes())


def leave_a_table_out(snapshot: Path) -> None:
    files = json.loads((snapshot / MANIFEST).read_text())["files"]
    del files["pop_acks"]
    change(snapshot, files=files)


def point_elsewhere(snapshot: Path) -> None:
    resign(snapshot / MANIFEST, "pop_acks", file="../pop_acks.parquet")


def be_of_another_version(snapshot: Path) -> None:
    change(snapshot, schema_version=99)


def admit_damage(snapshot: Path) -> None:
    change(snapshot, problems=["no whole record at log offset 7"])


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (drop_a_file, "position_moves.parquet is missing"),
        (change_a_file, "pop_acks.parquet is not the file that was exported"),
        (swap_two_files, "pop_acks.parquet is not the file that was exported"),
        (leave_a_table_out, "the manifest does not name pop_acks"),
        (point_elsewhere, "pop_acks.parquet is missing"),
        (be_of_another_version, "schema version 99"),
        (admit_damage, "no whole record at log offset 7"),
    ],
)
def test_what_makes_it_incomplete(
    snapshot: Path, damage: Callable[[Path], None], told: str
) -> None:
    damage(snapshot)
    (problem,) = follow(snapshot).problems
    assert problem.startswith(told)


@pytest.mark.parametrize(
    "table", ["commitlog_index", "pop_checkpoints", "pop_acks", "consume_offsets"]
)
def test_an_empty_table_is_not_green(snapshot: Path, table: str) -> None:
    resign(snapshot / MANIFEST, table, rows=0)
    (problem,) = follow(snapshot).problems
    assert problem.startswith(f"{table}.parquet is empty")


def test_a_broker_that_handed_out_nothing(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "data")
    log.send("m0")
    export(log.data_dir, tmp_path / "snap")
    found = follow(tmp_path / "snap").problems
    assert [problem.partition(".")[0] for problem in found] == [
        "pop_checkpoints",
        "pop_acks",
        "consume_offsets",
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"snapshot_id": "s1"}'])
def test_no_manifest(snapshot: Path, text: str) -> None:
    (snapshot / MANIFEST).write_text(text)
    with pytest.raises(NoSnapshot):
        load(snapshot)
    (snapshot / MANIFEST).unlink()
    with pytest.raises(NoSnapshot, match="the export did not finish"):
        load(snapshot)


def test_an_id_that_would_be_a_path(snapshot: Path) -> None:
    change(snapshot, snapshot_id="../elsewhere")
    with pytest.raises(NoSnapshot, match="illegal snapshot id"):
        load(snapshot)


def test_the_default_id() -> None:
    assert make_id("broker-a", 7, 99) == "broker-a-7-99"
    assert make_id("a/b c", 7, 99) == "a_b_c-7-99"
    assert make_id("", 7, 99) == "broker-7-99"
