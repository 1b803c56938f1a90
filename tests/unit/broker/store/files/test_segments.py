"""Segments: one address space over fixed-size files."""

from pathlib import Path

import pytest
from harness.memory_files import MemoryFiles

from popmq_broker.store.files.segments import Found, Segments, name, numbered
from popmq_common.errors import DiskFull

FOLDER = Path("/d/commitlog")


@pytest.fixture
def disk() -> MemoryFiles:
    disk = MemoryFiles()
    disk.make_folder(FOLDER)
    return disk


@pytest.fixture
def segments(disk: MemoryFiles) -> Segments:
    return Segments(disk, FOLDER, 100, [])


def test_files_are_named_after_their_first_byte(disk: MemoryFiles, segments: Segments) -> None:
    assert (segments.start, segments.end) == (0, 0)
    segments.write(0, b"a" * 100)
    segments.write(100, b"b")
    assert disk.names(FOLDER) == ["00000000000000000000", "00000000000000000100"]
    assert (segments.start, segments.end) == (0, 200)
    assert segments.path(199) == FOLDER / "00000000000000000100"
    assert segments.base(199) == 100
    assert segments.read(98, 5) == b"aa"
    assert segments.read(100, 2) == b"b\0"
    assert segments.read(200, 5) == b""


def test_other_names_are_no_segments(disk: MemoryFiles) -> None:
    for other in ("lost+found", "0" * 19, "0" * 21, "x" * 20, "١" * 20):
        disk.open(FOLDER / other, size_bytes=1)
    disk.open(FOLDER / name(300), size_bytes=7)
    assert numbered(disk, FOLDER) == [Found(300, 7)]


def test_opening_gives_short_files_their_size(disk: MemoryFiles) -> None:
    disk.open(FOLDER / name(100), size_bytes=7)
    segments = Segments(disk, FOLDER, 100, [Found(100, 7)])
    assert (segments.start, segments.end) == (100, 200)
    assert disk.size(FOLDER / name(100)) == 100


def test_a_piece_must_lie_in_one_file(segments: Segments) -> None:
    with pytest.raises(AssertionError):
        segments.write(90, b"x" * 11)


def test_zeroing_removes_later_files_for_good(disk: MemoryFiles, segments: Segments) -> None:
    for base in (0, 100, 200):
        segments.write(base, b"x" * 100)
    segments.sync(0, 300)
    segments.zero_from(150)
    disk.crash()
    assert disk.names(FOLDER) == [name(0), name(100)]
    assert disk.read(FOLDER / name(100)) == b"x" * 50 + bytes(50)
    assert disk.read(FOLDER / name(0)) == b"x" * 100


def test_sync_covers_every_file_it_touches(disk: MemoryFiles, segments: Segments) -> None:
    for base in (0, 100, 200, 300):
        segments.write(base, b"x")
    segments.sync(150, 300)
    disk.crash()
    kept = [disk.read(FOLDER / name(base)) or b"" for base in (0, 100, 200, 300)]
    assert [data[:1] for data in kept] == [b"", b"x", b"x", b""]


def test_data_is_found_over_files_and_holes(segments: Segments) -> None:
    segments.write(0, b"\0" * 30 + b"a")
    segments.write(200, b"b")
    found = [(at, piece.strip(b"\0")) for at, piece in segments.data_from(10)]
    assert found == [(30, b"a"), (200, b"b")]
    assert list(segments.data_from(201)) == []


def test_a_file_that_cannot_be_made_leaves_no_name(
    disk: MemoryFiles, segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments.write(0, b"x")
    disk.capacity_bytes = disk.used_bytes
    with pytest.raises(DiskFull, match="00000000000000000100"):
        segments.write(100, b"y")
    segments.zero_from(1)
    assert disk.names(FOLDER) == [name(0)]
