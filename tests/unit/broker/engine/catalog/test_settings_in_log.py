"""Does the log alone restore topics, groups, floors, users and the permission, at any time?"""

import asyncio
import random
import shutil
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.names import TOPIC
from harness.setting_histories import KINDS, Step, check, held, rebuilt, take
from hypothesis import given, settings
from hypothesis import strategies as st

from popmq_broker import rebuild
from popmq_broker.config import BrokerConfig
from popmq_broker.core.catalog.catalog import CATALOG_FILE, decode_marks
from popmq_broker.store.offline import settings_in_log
from popmq_common.errors import BadRequest

STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 3)), max_size=25)


@settings(max_examples=25)
@given(STEPS)
def test_any_history_is_restored_from_the_log_alone(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    check(folder, steps)
    shutil.rmtree(folder)


def test_retention_takes_no_settings_out_of_the_log(tmp_path: Path) -> None:
    """The log is turned over several times."""
    driver = EngineDriver(tmp_path, retention_ms=86_400_000)
    try:
        driver.make(queues=1)
        take(driver, ("group", 2))
        take(driver, ("access", 1))
        starts = set()
        for _ in range(6):
            take(driver, ("send", 0))
            take(driver, ("retain", 0))
            starts.add(driver.broker.state.runtime.store.log_start)
        assert len(starts) > 3
        state = driver.broker.state.catalog_state
        assert state.whole_from is not None
        assert state.whole_from >= driver.broker.state.runtime.store.log_start
        assert rebuilt(driver, tmp_path) == held(state)
    finally:
        driver.close()


def test_a_directory_of_an_earlier_version_is_taken_over_at_the_first_start(
    tmp_path: Path,
) -> None:
    """Its files have what no record tells."""
    driver = EngineDriver(tmp_path)
    try:
        driver.make(queues=1)
        driver.run(driver.broker.catalog.save())
        config = driver.data_dir / "config"
        marks = decode_marks((config / CATALOG_FILE).read_text())
        driver.stop()
        (config / f"{CATALOG_FILE}.bak").unlink(missing_ok=True)
        (config / CATALOG_FILE).write_text(f'{{"logEnd": {marks.log_end}}}')
        driver.go_on()
        state = driver.broker.state.catalog_state
        assert state.whole_from is not None
        assert state.whole_from >= marks.log_end
        assert TOPIC in state.topics
    finally:
        driver.close()


def test_each_start_is_a_record_of_the_log(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path)
    try:
        first = driver.broker.state.catalog_state.epoch
        driver.restart()
        driver.crash(random.Random(5))
        assert driver.broker.state.catalog_state.epoch == first + 2
    finally:
        driver.close()


def test_settings_are_not_set_aside_when_the_log_does_not_tell_them(tmp_path: Path) -> None:
    """No broker of this version ran there: nothing is touched."""
    driver = EngineDriver(tmp_path)
    driver.make(queues=1)
    driver.close()
    config = BrokerConfig(data_dir=driver.data_dir, segment_bytes=8 * 1024)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings_in_log, "FIRST_EPOCH", -7)
        with pytest.raises(BadRequest, match="Start one"):
            asyncio.run(rebuild.rebuild(config, offsets=False, settings=True))
    assert (driver.data_dir / "config" / "topics.json").exists()
