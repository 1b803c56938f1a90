"""Messages, and what is known of them, are readable by the broker's user alone."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver

from popmq_broker import backup


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def readable_by_others(folder: Path) -> list[str]:
    found = [folder, *sorted(folder.rglob("*"))]
    return [str(path.relative_to(folder)) for path in found if path.stat().st_mode & 0o077]


def test_nothing_in_a_data_directory_or_its_copy_is_for_others(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path)
    try:
        driver.make(queues=2)
        for number in range(40):
            driver.send(f"{number}")
        driver.ack(*[message.handle for message in driver.pop(10)])
        driver.restart()
        driver.send("after a restart")
        driver.run(driver.broker.offsets.write())
        driver.run(driver.broker.timer_keeper.write(at_once=True))
        names = {path.name for path in driver.data_dir.rglob("*")}
        assert {"commitlog", "consumequeue", "index", "config", "checkpoint"} <= names
        assert readable_by_others(driver.data_dir) == []
        backup.copy(driver.data_dir, tmp_path / "copy", lambda _done, _total: None)
        assert readable_by_others(tmp_path / "copy") == []
    finally:
        driver.close()
