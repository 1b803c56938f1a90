"""The order of a copy is what makes it good; what it cannot do it says."""

from pathlib import Path

import pytest
from harness.broker import SEGMENT_BYTES, EngineDriver

from popmq_broker import backup
from popmq_broker.store.offline import directory_copy
from popmq_common.errors import BadRequest


@pytest.fixture
def driver(tmp_path: Path) -> EngineDriver:
    driver = EngineDriver(tmp_path)
    driver.make(queues=1)
    return driver


def nobody_watches(_done: int, _total: int) -> None:
    return


def test_a_copy_is_a_store_of_its_own(driver: EngineDriver, tmp_path: Path) -> None:
    for number in range(100):  # several files of the log
        driver.send(f"{number}")
    handles = [message.handle for message in driver.pop(10)]
    driver.ack(*handles[:5])
    target = tmp_path / "copy"
    copied = backup.copy(driver.data_dir, target, nobody_watches)
    assert copied.data_bytes > 2 * SEGMENT_BYTES
    driver.send("later")
    driver.close()
    restored = EngineDriver(tmp_path / "restored")
    restored.close()
    (tmp_path / "restored" / "data-0").rename(tmp_path / "old")
    target.rename(tmp_path / "restored" / "data-0")
    restored = EngineDriver(tmp_path / "restored")
    restored.clock.advance(60_000)
    restored.advance(0)
    bodies: list[int] = []
    while came := restored.pop(32):
        bodies += [int(message.body) for message in came]
        restored.ack(*(message.handle for message in came))
    assert sorted(bodies) == list(range(5, 100))
    restored.close()


def test_the_log_is_copied_last_and_in_order(driver: EngineDriver) -> None:
    for number in range(100):
        driver.send(f"{number}")
    places = [
        path.relative_to(driver.data_dir).parts for path in directory_copy._files(driver.data_dir)
    ]
    driver.close()
    folders = [place[0] for place in places]
    assert folders[0] in ("checkpoint", "config")
    first_of_log = folders.index("commitlog")
    assert set(folders[first_of_log:]) == {"commitlog"}
    assert len(folders) - first_of_log > 1
    assert places[first_of_log:] == sorted(places[first_of_log:])
    assert not {"lock", "index"} & set(folders)


def test_a_file_that_retention_takes_meanwhile_leaves_no_gap(
    driver: EngineDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        driver.send(f"{number}")
    driver.close()
    log = driver.data_dir / "commitlog"
    names = [path.name for path in sorted(log.iterdir())]
    copy_file = directory_copy._copy_file

    def deleted_meanwhile(source: Path, target: Path) -> int:
        if source.name == names[1] and source.parent == log:
            source.unlink()
        return copy_file(source, target)

    monkeypatch.setattr(directory_copy, "_copy_file", deleted_meanwhile)
    backup.copy(driver.data_dir, tmp_path / "copy", nobody_watches)
    left = [path.name for path in sorted((tmp_path / "copy" / "commitlog").iterdir())]
    assert left == names[2:]


def test_holes_stay_holes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "commitlog").mkdir(parents=True)
    with open(source / "commitlog" / "0", "wb") as file:
        file.write(b"begin")
        file.seek(4 << 20)
        file.write(b"middle")
        file.truncate(64 << 20)
    copied = backup.copy(source, tmp_path / "copy", nobody_watches)
    made = tmp_path / "copy" / "commitlog" / "0"
    assert made.read_bytes() == (source / "commitlog" / "0").read_bytes()
    assert copied.data_bytes < 1 << 20
    assert made.stat().st_blocks * 512 < 1 << 20


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    source, full = tmp_path / "source", tmp_path / "full"
    (source / "commitlog").mkdir(parents=True)
    full.mkdir()
    (full / "x").touch()
    for place, target, reason in (
        (full, tmp_path / "new", "no commitlog"),
        (source, full, "not empty"),
        (source, source / "inside", "lies in"),
    ):
        with pytest.raises(BadRequest, match=reason):
            backup.copy(place, target, nobody_watches)
