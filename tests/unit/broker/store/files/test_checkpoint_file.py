"""The checkpoint page: ours, RocketMQ's, damaged."""

from pathlib import Path

import pytest
from harness.memory_files import MemoryFiles

from popmq_broker.store.files.checkpoint_file import Marks, load, save

PATH = Path("/d/checkpoint")
MARKS = Marks(log_end=1000, queues_end=900, log_ms=17, queues_ms=15)


@pytest.fixture
def disk() -> MemoryFiles:
    disk = MemoryFiles()
    disk.make_folder(PATH.parent)
    return disk


def test_round_trip_and_on_disk(disk: MemoryFiles) -> None:
    save(disk, PATH, Marks(log_end=1, queues_end=1))
    save(disk, PATH, MARKS)
    disk.sync_folder(PATH.parent)
    disk.crash()
    assert load(disk, PATH) == MARKS


def test_rocketmq_finds_its_five_numbers(disk: MemoryFiles) -> None:
    save(disk, PATH, MARKS)
    page = disk.read(PATH)
    assert page is not None
    assert len(page) == 4096
    assert [int.from_bytes(page[i : i + 8]) for i in range(0, 40, 8)] == [17, 15, 0, 1000, 1000]


def test_no_file_no_marks(disk: MemoryFiles) -> None:
    assert load(disk, PATH) is None


def test_a_page_of_rocketmqs_says_nothing_about_the_log(disk: MemoryFiles) -> None:
    disk.open(PATH, size_bytes=4096).pwrite((18).to_bytes(8), 0)
    assert load(disk, PATH) is None


def test_rocketmq_has_run_on_our_directory(disk: MemoryFiles) -> None:
    save(disk, PATH, MARKS)
    disk.damage(PATH, 0, (18).to_bytes(8))
    assert load(disk, PATH) is None


@pytest.mark.parametrize("at", range(64, 104))
def test_a_damaged_page_says_nothing(disk: MemoryFiles, at: int) -> None:
    save(disk, PATH, MARKS)
    page = disk.read(PATH)
    assert page is not None
    disk.damage(PATH, at, bytes((page[at] ^ 1,)))
    assert load(disk, PATH) is None


def test_a_short_page_says_nothing(disk: MemoryFiles) -> None:
    save(disk, PATH, MARKS)
    disk.shorten(PATH, 4095)
    assert load(disk, PATH) is None
