"""Snapshots by a broker that goes on: nothing is missing between two of them, nothing is twice."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import QUICK_DISK, SEGMENT_BYTES, EngineDriver
from harness.exports import export, table
from harness.histories import History

from popmq_internal.v1 import link_pb2 as link
from popmq_pipelines.export.snapshot_writer import export as export_files
from popmq_pipelines.snapshot import manifest as manifests
from popmq_pipelines.snapshot.chain import follow
from popmq_pipelines.snapshot.columns import SNAPSHOT_TABLES, STATE_TABLES
from popmq_pipelines.snapshot.manifest import MANIFEST


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Here snapshots are many and synced often, and no test is about what a crash leaves of one."""
    with tempfile.TemporaryDirectory(dir=QUICK_DISK) as folder:
        yield Path(folder)


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    opened = EngineDriver(tmp_path / "broker", export_dir=str(tmp_path / "snapshots"))
    yield opened
    opened.close()


def place(done: link.FinishedExport) -> Path:
    assert done.failure == ""
    assert list(done.problems) == []
    return Path(done.place)


def broken(folder: Path) -> list[str]:
    """What is wrong with a chain, but that there is nothing to audit in it."""
    return [text for text in follow(folder).problems if "is empty" not in text]


@pytest.mark.parametrize("seed", range(4))
def test_snapshots_together_say_what_one_of_all_says(seed: int, tmp_path: Path) -> None:
    """At random moments of a random life; the last one and those it goes on from have every row
    that an export of the files alone has, in the same order."""
    out = tmp_path / "out"
    driver = EngineDriver(tmp_path, export_dir=str(out))
    history = History(driver, seed)
    kinds = []
    for round_ in range(5):
        history.go_on(25)
        kinds.append(export(driver).whole)
        if round_ == 2 and seed % 2:
            history.crash()
    history.go_on(5)
    last = place(export(driver))
    driver.run(driver.broker.close())
    alone = tmp_path / "alone"
    whole = export_files(driver.data_dir, alone)
    driver.loop.close()
    assert kinds[0]
    assert not all(kinds)
    assert whole.problems == []
    assert follow(last).problems == []
    assert follow(last).manifest.log_end == whole.log_end
    for name in SNAPSHOT_TABLES:
        found = table(last, name)
        if name == "queue_watermarks":  # a broker also tells of queues that hold nothing
            found = [row for row in found if row[2] < row[3]]
        assert found == table(alone, name), name


def test_a_snapshot_goes_on_where_the_one_before_ended(driver: EngineDriver) -> None:
    driver.make()
    driver.send("one")
    first = export(driver)
    driver.send("two")
    second = export(driver)
    third = export(driver)  # nothing has happened
    assert (first.whole, second.whole, third.whole) == (True, False, False)
    assert (second.log_from, third.log_from) == (first.log_end, second.log_end)
    assert third.log_end == second.log_end
    chain = follow(place(third))
    assert [folder.name for folder in chain.folders] == [
        one.snapshot_id for one in (first, second, third)
    ]
    rows = [
        manifests.load(place(one)).files["commitlog_index"]["rows"]
        for one in (first, second, third)
    ]
    assert rows[1:] == [1, 0]
    assert chain.manifest.files["commitlog_index"]["rows"] == sum(rows)
    assert (chain.manifest.log_from, chain.manifest.log_end) == (0, second.log_end)


def test_a_whole_one_when_it_is_asked_for(driver: EngineDriver) -> None:
    driver.make()
    driver.send("one")
    export(driver)
    done = export(driver, whole=True)
    assert (done.whole, done.why_whole) == (True, "it was asked for")


def test_a_log_that_lost_its_end_begins_a_new_chain(driver: EngineDriver) -> None:
    """A power failure with async flush takes back what a snapshot has."""
    driver.make()
    driver.send("kept")
    export(driver)
    last = manifests.load(place(export(driver)))
    data = driver.data_dir / "commitlog" / f"{0:020d}"
    with open(data, "r+b") as file:  # the same place, another record
        file.seek(last.log_last + 30)
        file.write(b"\xff")
    done = export(driver)
    assert (done.whole, done.why_whole) == (
        True,
        "the log is not the one that the last one was made of",
    )


def test_what_retention_has_deleted_stays_in_the_chain(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path, export_dir=str(tmp_path / "out"), retention_ms=1_000)
    driver.make(queues=1)
    sent = 0
    while (
        sent < 40 or not 1_000 < driver.broker.state.runtime.store.log_end % SEGMENT_BYTES < 5_000
    ):
        driver.send(f"{sent}-{'x' * 200}")
        sent += 1
    export(driver)
    driver.advance(5_000)
    driver.send("young")  # in the same file of the log as the last of the others
    assert driver.retain() > 0
    done = export(driver)
    bodies = table(place(done), "commitlog_index")
    (marks,) = [row for row in table(place(done), "queue_watermarks") if row[0] == "t"]
    driver.close()
    assert not done.whole
    assert len([row for row in bodies if row[0] == "t"]) == sent + 1
    assert marks[2] > 0
    assert marks[3] == sent + 1


def test_a_log_whose_begin_is_gone_since_begins_a_new_chain(tmp_path: Path) -> None:
    """Retention was faster than the snapshots: what came between is in none."""
    driver = EngineDriver(tmp_path, export_dir=str(tmp_path / "out"), retention_ms=1_000)
    driver.make(queues=1)
    driver.send("first")
    export(driver)
    for i in range(60):
        driver.send(f"{i}-{'x' * 200}")
    driver.advance(5_000)
    driver.send("young")
    assert driver.retain() > 0
    done = export(driver)
    driver.close()
    assert done.whole
    assert done.why_whole == "the log does not hold what came behind the last one"
    assert done.log_from > 0


def test_chains_are_bounded_and_go_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    driver = EngineDriver(tmp_path, export_dir=str(out), export_chain_max=2, export_keep=2)
    driver.make()
    done = []
    for i in range(7):
        driver.send(f"m{i}")
        done.append(export(driver))
    driver.close()
    assert [one.whole for one in done] == [True, False] * 3 + [True]
    assert [list(one.removed) for one in done[:4]] == [[]] * 4
    assert list(done[4].removed) == [done[1].snapshot_id, done[0].snapshot_id]
    left = sorted(folder.name for folder in (out / "broker-a").iterdir())
    assert left == sorted(one.snapshot_id for one in done[4:])
    assert broken(place(done[5])) == []


def test_what_was_begun_and_not_finished_is_cleared_away(driver: EngineDriver) -> None:
    driver.make()
    driver.send("one")
    first = place(export(driver))
    begun = first.parent / "broker-a-1-2"
    begun.mkdir()
    (begun / "pop_acks.parquet").write_bytes(b"half")
    somebody_elses = first.parent / "notes"
    somebody_elses.mkdir()
    export(driver)
    assert not begun.exists()
    assert somebody_elses.exists()


@pytest.mark.parametrize("damage", ["gone", "changed", "one of its files is changed"])
def test_a_chain_with_a_broken_link_says_nothing(driver: EngineDriver, damage: str) -> None:
    driver.make()
    driver.send("one")
    first = place(export(driver))
    driver.send("two")
    second = place(export(driver))
    assert broken(second) == []
    if damage == "gone":
        (first / MANIFEST).unlink()
    elif damage == "changed":
        (first / MANIFEST).write_bytes((first / MANIFEST).read_bytes() + b" ")
    else:
        with open(first / "pop_acks.parquet", "ab") as file:
            file.write(b"x")
    told = {
        "gone": "goes on from one that is not there",
        "changed": "does not go on from",
        "one of its files is changed": "SHA-256 differs",
    }
    assert told[damage] in follow(second).problems[0]


def test_state_is_that_of_the_last_snapshot(driver: EngineDriver) -> None:
    driver.make(queues=1)
    driver.send("one")
    export(driver)
    driver.ack(*(message.handle for message in driver.pop()))
    last = place(export(driver))
    for name in STATE_TABLES:
        assert follow(last).files(name) == [last.resolve() / f"{name}.parquet"]
    assert ("t", "g", 0, 1, None, None) in table(last, "consume_offsets")
