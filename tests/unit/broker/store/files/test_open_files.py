"""A bounded number of open files."""

from pathlib import Path

from harness.memory_files import MemoryFile, MemoryFiles

from popmq_broker.store.files.open_files import OpenFiles

FOLDER = Path("/d")


class Counting(MemoryFiles):
    """Counts what is open."""

    def __init__(self) -> None:
        super().__init__()
        self.make_folder(FOLDER)
        self.opened = 0
        self.now_open: set[Path] = set()

    def open(self, path: Path, *, size_bytes: int | None = None) -> MemoryFile:
        file = super().open(path, size_bytes=size_bytes)
        self.opened += 1
        self.now_open.add(path)
        file.close = lambda: self.now_open.discard(path)  # type: ignore[method-assign]
        return file


def test_the_least_recently_used_is_closed() -> None:
    disk = Counting()
    files = OpenFiles(disk, 2)
    for name in "ab":
        files.get(FOLDER / name, size_bytes=1)
    files.get(FOLDER / "a")
    files.get(FOLDER / "c", size_bytes=1)
    assert disk.now_open == {FOLDER / "a", FOLDER / "c"}
    files.get(FOLDER / "a")
    assert disk.opened == 3
    files.get(FOLDER / "b")
    assert disk.now_open == {FOLDER / "a", FOLDER / "b"}


def test_a_removed_file_is_closed_and_gone() -> None:
    disk = Counting()
    files = OpenFiles(disk, 2)
    files.get(FOLDER / "a", size_bytes=1)
    files.remove(FOLDER / "a")
    files.remove(FOLDER / "a")
    assert disk.now_open == set()
    assert not disk.exists(FOLDER / "a")


def test_closing_closes_all_and_it_can_be_used_again() -> None:
    disk = Counting()
    files = OpenFiles(disk, 2)
    files.get(FOLDER / "a", size_bytes=1)
    files.close()
    assert disk.now_open == set()
    files.get(FOLDER / "a")
    assert disk.now_open == {FOLDER / "a"}
