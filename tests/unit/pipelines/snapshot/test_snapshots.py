"""What is there is listed, verified, and kept as long as it should be, on a disk and elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pytest
from harness.log_writer import LogWriter

from popmq_pipelines.export import watermarks
from popmq_pipelines.export.snapshot_writer import Previous, write
from popmq_pipelines.snapshot import snapshots
from popmq_pipelines.snapshot.columns import SCHEMA_VERSION
from popmq_pipelines.snapshot.destination import Destination, NoDestination, open_destination
from popmq_pipelines.snapshot.manifest import MANIFEST
from popmq_pipelines.snapshot.seal import SEAL
from popmq_pipelines.snapshot.snapshots import KeptSnapshot

KEY = b"the key of the operator"


@pytest.fixture(params=["disk", "fsspec"])
def destination(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Destination]:
    if request.param == "disk":
        yield open_destination(str(tmp_path / "out"))
        return
    yield open_destination("memory://snapshots")
    fsspec.filesystem("memory").rm("/snapshots", recursive=True)


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    written = LogWriter(tmp_path / "data")
    written.send("m0")
    written.ack(written.pop(0))
    written.save_offsets()
    return written


def export(
    log: LogWriter,
    destination: Destination,
    name: str,
    before: KeptSnapshot | None = None,
    key: bytes | None = None,
) -> KeptSnapshot:
    previous = None
    if before is not None:
        previous = Previous(manifest=before.manifest, manifest_sha256=before.manifest_sha256)
    marks = watermarks.found(log.data_dir)
    write(log.data_dir, destination, name, marks, snapshot_id=name, previous=previous, key=key)
    (made,) = [one for one in snapshots.kept(destination) if one.folder == name]
    return made


def test_what_was_written_is_listed_and_as_it_was(log: LogWriter, destination: Destination) -> None:
    assert snapshots.kept(destination) == []
    first = export(log, destination, "s1")
    log.now_ms += 1
    log.send("m1")
    second = export(log, destination, "s2", first)
    assert [one.folder for one in snapshots.kept(destination)] == ["s1", "s2"]
    assert [snapshots.verify(destination, one) for one in (first, second)] == [[], []]
    assert list(snapshots.verify_joins([first, second])) == []
    assert first.rows == sum(told["rows"] for told in first.manifest.files.values())
    assert second.manifest.files["commitlog_index"]["rows"] == 1


def test_a_file_that_was_changed_or_is_gone_is_found(
    log: LogWriter, destination: Destination
) -> None:
    one = export(log, destination, "s1")
    sink = destination.create("s1", "pop_acks.parquet")
    sink.write(b"something else")
    sink.close()
    assert snapshots.verify(destination, one) == [
        "pop_acks.parquet is not the file that was exported: its SHA-256 differs"
    ]


def test_a_missing_file_is_found(log: LogWriter, tmp_path: Path) -> None:
    destination = open_destination(str(tmp_path / "out"))
    one = export(log, destination, "s1")
    (tmp_path / "out" / "s1" / "pop_acks.parquet").unlink()
    assert snapshots.verify(destination, one) == ["pop_acks.parquet is missing"]


def test_a_link_that_is_gone_or_another_is_found(log: LogWriter, destination: Destination) -> None:
    first = export(log, destination, "s1")
    second = export(log, destination, "s2", first)
    ((who, text),) = snapshots.verify_joins([second])
    assert (who, text) == (second, "it goes on from s1, which is not there")
    destination.finish("s1", destination.read("s1", MANIFEST) + b" ")
    ((_, text),) = snapshots.verify_joins(snapshots.kept(destination))
    assert "has changed" in text


def test_what_is_removed_is_gone_and_nothing_else(log: LogWriter, destination: Destination) -> None:
    for name in ("s1", "s2"):
        export(log, destination, name)
    destination.remove("s1")
    assert destination.names() == ["s2"]
    assert [one.folder for one in snapshots.kept(destination)] == ["s2"]


def test_snapshots_are_found_at_a_place_of_one_broker_or_of_several(
    log: LogWriter, tmp_path: Path
) -> None:
    for broker in ("a", "b"):
        export(log, open_destination(str(tmp_path / "out" / broker)), f"{broker}1")

    def found(place: Path) -> list[str]:
        return [one.folder for _, kept in snapshots.look(str(place)) for one in kept]

    assert found(tmp_path / "out") == ["a1", "b1"]
    assert found(tmp_path / "out" / "a") == ["a1"]
    assert found(tmp_path / "out" / "a" / "a1") == ["a1"]
    assert found(tmp_path / "data") == []
    assert found(tmp_path / "nowhere") == []


def test_a_url_that_nobody_knows() -> None:
    with pytest.raises(NoDestination, match="nosuchthing"):
        open_destination("nosuchthing://bucket/x")


def kept(name: str, previous: str = "", broker: str = "broker-a", **fields: Any) -> KeptSnapshot:
    number = int(name[1:])
    told = {
        "snapshot_id": name,
        "broker": broker,
        "previous_snapshot_id": previous,
        "is_whole": not previous,
        "schema_version": SCHEMA_VERSION,
        "problems": [],
        "log_end": number * 100,
        "as_of_ms": number,
        **fields,
    }
    manifest: Any = SimpleNamespace(**told)
    return KeptSnapshot(name, manifest, "")


CHAIN = [kept("s1"), kept("s2", "s1"), kept("s3", "s2")]


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([], "it is the first"),
        ([kept("s1", broker="other")], "it is the first"),
        ([kept("s1", schema_version=1)], "the last one has another schema"),
        ([kept("s1", problems=["no whole record"])], "the last one has problems"),
        ([kept("s1", log_end=49)], "the log does not hold what came behind the last one"),
        ([kept("s1", log_end=501)], "the log does not hold what came behind the last one"),
        (CHAIN[1:], "one that the last one goes on from is gone"),
        ([*CHAIN, kept("s4", "s3")], "4 go on from each other"),
    ],
)
def test_when_a_snapshot_is_whole(found: list[KeptSnapshot], why: str) -> None:
    choice = snapshots.choose(found, "broker-a", log_start=50, log_end=500, chain_max=4)
    assert (choice.previous, choice.why_whole) == (None, why)


def test_when_it_goes_on() -> None:
    for chain in (CHAIN[:1], CHAIN[:2], CHAIN):
        choice = snapshots.choose(chain, "broker-a", log_start=50, log_end=500, chain_max=4)
        assert choice.previous == chain[-1]


def test_which_are_too_many() -> None:
    newer = [kept("s4"), kept("s5", "s4"), kept("s6"), kept("s7", broker="other")]
    all_of_them = [*CHAIN, *newer]

    def removed(keep: int) -> list[str]:
        return [one.folder for one in snapshots.surplus(all_of_them, "broker-a", keep)]

    assert removed(0) == removed(3) == []
    assert removed(2) == ["s3", "s2", "s1"]
    assert removed(1) == ["s5", "s4", "s3", "s2", "s1"]


def test_another_brokers_unfinished_ones_are_left_alone(tmp_path: Path) -> None:
    for name in ("a-1-2", "a-b-1-2", "b-1-2", "a-notes"):
        (tmp_path / name).mkdir()
    assert snapshots.unfinished(open_destination(str(tmp_path)), "a") == ["a-1-2"]


def test_with_a_key_each_must_be_sealed_with_it(log: LogWriter, destination: Destination) -> None:
    sealed = export(log, destination, "s1", key=KEY)
    open_one = export(log, destination, "s2")
    assert snapshots.verify(destination, sealed, KEY) == []
    assert snapshots.verify(destination, sealed) == []
    assert snapshots.verify(destination, open_one) == []
    assert snapshots.verify(destination, sealed, b"another key, as long") == [
        f"{SEAL} is not of this manifest and this key"
    ]
    assert snapshots.verify(destination, open_one, KEY) == [
        f"{SEAL} is missing: the snapshot was written without the key"
    ]
