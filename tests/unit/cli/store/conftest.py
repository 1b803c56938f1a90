"""A directory of a broker that has stopped, and the settings that it had."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import pytest
from campaigns.stopped_store import make
from harness.broker import QUICK_DISK, SEGMENT_BYTES


@pytest.fixture(scope="package")
def made() -> Iterator[Path]:
    folder = Path(mkdtemp(dir=QUICK_DISK))
    data_dir, driver = make(folder, clean=True)
    driver.loop.close()
    yield data_dir
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def _its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POPMQ_BROKER_REVIVE_QUEUES", "2")
    monkeypatch.setenv("POPMQ_BROKER_QUEUE_FILE_BYTES", "200")
    monkeypatch.setenv("POPMQ_BROKER_DISK_RESERVE_BYTES", "0")
    monkeypatch.setenv("POPMQ_BROKER_SEGMENT_BYTES", str(SEGMENT_BYTES))
