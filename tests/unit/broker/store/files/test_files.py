"""The seam: a real disk and the one in memory keep the same promises; only one forgets."""

import errno
import os
from pathlib import Path
from random import Random

import pytest
from harness.memory_files import SECTOR_BYTES, MemoryFiles

from popmq_broker.store.files.files import Files, OsFiles, disk_full, writing_to
from popmq_common.errors import DirectoryInUse, DirectoryNotWritable, DiskFull


@pytest.fixture(params=["real", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, Path]:
    files: Files = OsFiles() if request.param == "real" else MemoryFiles()
    folder = tmp_path / "a" / "b"
    files.make_folder(folder)
    return files, folder


def test_a_sparse_file_reads_as_zeros_and_keeps_what_is_written(place: tuple[Files, Path]) -> None:
    files, folder = place
    file = files.open(folder / "f", size_bytes=100_000)
    file.pwrite(b"hello", 70_000)
    assert files.size(folder / "f") == 100_000
    assert file.pread(7, 69_999) == b"\0hello\0"
    assert file.mapped(7, 69_999) == b"\0hello\0"
    assert file.pread(10, 99_998) == b"\0\0"
    file.pwrite(b"J", 70_000)
    assert file.mapped(5, 70_000) == b"Jello"
    file.fdatasync()
    file.close()
    again = files.open(folder / "f")
    assert again.pread(5, 70_000) == b"Jello"
    again.close()


def test_data_is_found_behind_a_hole(place: tuple[Files, Path]) -> None:
    files, folder = place
    file = files.open(folder / "f", size_bytes=1 << 20)
    assert file.next_data(0) is None
    file.pwrite(b"x", 600_000)
    at = file.next_data(0)
    assert at is not None
    assert 600_000 - 65_536 < at <= 600_000
    assert file.next_data(600_000) == 600_000
    assert file.next_data(800_000) is None
    file.close()


def test_truncating_makes_zeros(place: tuple[Files, Path]) -> None:
    files, folder = place
    file = files.open(folder / "f", size_bytes=100)
    file.pwrite(b"x" * 100, 0)
    assert file.mapped(1, 60) == b"x"
    file.truncate(50)
    file.truncate(100)
    assert file.mapped(100, 0) == b"x" * 50 + bytes(50)
    file.close()


def test_opening_gives_the_size_and_needs_one_to_make_a_file(place: tuple[Files, Path]) -> None:
    files, folder = place
    with pytest.raises(FileNotFoundError):
        files.open(folder / "f")
    files.open(folder / "f", size_bytes=10).close()
    files.open(folder / "f", size_bytes=30).close()
    assert files.size(folder / "f") == 30
    with pytest.raises(FileNotFoundError):
        files.open(folder / "none" / "f", size_bytes=10)


def test_names_sizes_and_removal(place: tuple[Files, Path]) -> None:
    files, folder = place
    assert files.names(folder / "none") == []
    assert files.size(folder / "none") == 0
    assert files.read(folder / "none") is None
    files.make_folder(folder / "z")
    for name in "ba":
        files.open(folder / name, size_bytes=1).close()
    assert files.names(folder) == ["a", "b", "z"]
    files.remove(folder / "a")
    files.remove(folder / "a")
    assert not files.exists(folder / "a")
    assert files.exists(folder / "b")
    files.sync(folder / "b")
    files.sync_folder(folder)
    assert files.free_bytes(folder) > 0


async def test_replacing_keeps_the_old_one(place: tuple[Files, Path]) -> None:
    files, folder = place
    path, keep = folder / "f.json", folder / "f.json.bak"
    files.replace(path, b"one", keep=keep)
    assert not files.exists(keep)
    await files.replace_async(path, b"two", keep=keep)
    assert (files.read(path), files.read(keep)) == (b"two", b"one")
    files.replace(path, b"three", keep=keep)
    assert (files.read(path), files.read(keep)) == (b"three", b"two")
    await files.replace_async(path, b"four")
    assert (files.read(path), files.read(keep)) == (b"four", b"two")
    assert files.names(folder) == ["f.json", "f.json.bak"]


def test_a_lock_is_held_once(place: tuple[Files, Path]) -> None:
    files, folder = place
    lock = files.lock(folder / "lock")
    with pytest.raises(DirectoryInUse, match="process"):
        files.lock(folder / "lock")
    lock.release()
    files.lock(folder / "lock").release()


def test_a_full_disk_has_a_typed_error() -> None:
    assert isinstance(disk_full(OSError(errno.ENOSPC, ""), Path("/d")), DiskFull)
    assert disk_full(OSError(errno.EIO, ""), Path("/d")) is None


def test_a_real_disk_that_is_full_is_told_by_the_write() -> None:
    file = OsFiles().open(Path("/dev/full"))
    with pytest.raises(OSError, match="No space left") as told:
        file.pwrite(b"x", 0)
    file.close()
    assert isinstance(disk_full(told.value, Path("/d")), DiskFull)


class TestMemory:
    FOLDER = Path("/d")

    @pytest.fixture
    def disk(self) -> MemoryFiles:
        disk = MemoryFiles()
        disk.make_folder(self.FOLDER)
        return disk

    def test_a_crash_drops_what_was_not_synced(self, disk: MemoryFiles) -> None:
        file = disk.open(self.FOLDER / "f", size_bytes=10)
        file.pwrite(b"one", 0)
        file.fdatasync()
        disk.sync_folder(self.FOLDER)
        file.pwrite(b"two", 0)
        disk.open(self.FOLDER / "g", size_bytes=10).fdatasync()
        disk.crash()
        assert disk.read(self.FOLDER / "f") == b"one".ljust(10, b"\0")
        assert not disk.exists(self.FOLDER / "g")

    def test_a_removal_that_was_not_synced_comes_back(self, disk: MemoryFiles) -> None:
        disk.open(self.FOLDER / "f", size_bytes=10).fdatasync()
        disk.sync_folder(self.FOLDER)
        disk.remove(self.FOLDER / "f")
        disk.crash()
        assert disk.exists(self.FOLDER / "f")

    def test_the_dead_process_writes_no_more(self, disk: MemoryFiles) -> None:
        file = disk.open(self.FOLDER / "f", size_bytes=10)
        file.fdatasync()
        disk.sync_folder(self.FOLDER)
        disk.kill()
        file.pwrite(b"x", 0)
        file.truncate(3)
        file.fdatasync()
        assert disk.read(self.FOLDER / "f") == bytes(10)

    def test_some_of_what_was_not_synced_survives_in_any_order(self, disk: MemoryFiles) -> None:
        seen = set()
        for seed in range(200):
            path = self.FOLDER / str(seed)
            file = disk.open(path, size_bytes=4 * SECTOR_BYTES)
            file.fdatasync()
            disk.sync_folder(self.FOLDER)
            for sector in range(4):
                file.pwrite(b"x" * SECTOR_BYTES, sector * SECTOR_BYTES)
            disk.crash(Random(seed))
            data = disk.read(path)
            assert data is not None
            seen.add(tuple(data[i * SECTOR_BYTES] for i in range(4)))
        assert len(seen) == 16

    def test_a_full_disk_takes_a_part(self, disk: MemoryFiles) -> None:
        disk.capacity_bytes = 3
        file = disk.open(self.FOLDER / "f", size_bytes=10)
        with pytest.raises(OSError, match="no space"):
            file.pwrite(b"12345", 0)
        assert disk.read(self.FOLDER / "f") == b"123".ljust(10, b"\0")
        with pytest.raises(DiskFull):
            disk.replace(self.FOLDER / "g", b"12")
        assert not disk.exists(self.FOLDER / "g")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_who_may_not_write_learns_whose_it_is(tmp_path: Path, number: int) -> None:
    missing = tmp_path / "commitlog" / "00000000000000000000"
    with pytest.raises(DirectoryNotWritable) as told, writing_to(tmp_path):
        raise OSError(number, "Permission denied", str(missing))
    assert f"{tmp_path} cannot be written by user {os.geteuid()}" in str(told.value)
    assert f"{tmp_path} belongs to user {tmp_path.stat().st_uid}; chown" in str(told.value)


def test_a_read_only_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(DirectoryNotWritable, match="read-only"), writing_to(tmp_path):
        raise OSError(errno.EROFS, "Read-only file system", str(tmp_path / "lock"))


def test_other_errors_of_the_disk_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Input/output"), writing_to(tmp_path):
        raise OSError(errno.EIO, "Input/output error", str(tmp_path))
