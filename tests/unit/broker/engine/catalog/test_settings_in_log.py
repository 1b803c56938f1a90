"""Does the log alone restore topics, groups, floors, users and the permission, at any time?"""

import asyncio
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.names import TOPIC
from hypothesis import given, settings
from hypothesis import strategies as st

from popmq_broker import rebuild
from popmq_broker.app import open_engine
from popmq_broker.config import BrokerConfig
from popmq_broker.core.catalog.catalog import CATALOG_FILE, decode_marks
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.store.offline import settings_in_log
from popmq_common.errors import BadRequest, PopMQError
from popmq_common.process.clock import VirtualClock
from popmq_internal.v1 import link_pb2 as link

Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("topic", "no topic", "group", "no group", "perm", "access", "peer", "send", "retain")
        ),
        st.integers(0, 3),
    ),
    max_size=25,
)


def held(state: CatalogState) -> tuple[object, ...]:
    return (
        dict(state.topics),
        dict(state.groups),
        dict(state.floors),
        dict(state.peers),
        state.perm,
        state.access,
    )


def take(driver: EngineDriver, step: Step) -> None:
    """One change; what the broker refuses changes nothing."""
    kind, number = step
    name = f"n{number}"
    try:
        if kind == "topic":
            topic = link.TopicConfig(
                name=name, read_queues=number + 1, write_queues=number + 1, message_type="MIXED"
            )
            driver.call(put_topic=link.PutTopic(topic=topic))
        elif kind == "no topic":
            driver.call(delete_topic=link.DeleteTopic(topic=name))
        elif kind == "group":
            group = link.GroupConfig(name=name, max_attempts=number + 1, consume_from="FIRST")
            driver.call(put_group=link.PutGroup(group=group))
        elif kind == "no group":
            driver.call(delete_group=link.DeleteGroup(group=name))
        elif kind == "perm":
            driver.call(set_permission=link.SetPermission(perm=4 if number % 2 else 6))
        elif kind == "peer":
            peer = link.Peer(name=name, identity=f"id{number}")
            driver.call(peers=link.Peers(peers=[peer]))
        elif kind == "access":
            put_access(driver, number)
        elif kind == "send":
            for _ in range(12):
                driver.send("x" * 900)
        else:
            driver.clock.advance(4 * 86_400_000)
            driver.retain()
    except PopMQError:
        pass


def put_access(driver: EngineDriver, number: int) -> None:
    has = driver.broker.state.catalog_state.access.version
    base = link.AccessVersion(version=has.version, stamp=has.stamp)
    version = link.AccessVersion(version=has.version + 1, stamp=f"s{number}")
    table = b'{"users":[{"username":"u%d"}],"acls":[]}' % number
    driver.call(put_access=link.PutAccess(version=version, base=base, table=table))


def rebuilt(driver: EngineDriver, folder: Path) -> tuple[object, ...]:
    """What a copy of the stopped directory holds whose settings were made from the log alone."""
    copy = folder / "copy"
    config = replace(driver.broker.state.runtime.config, data_dir=copy)
    driver.stop()
    shutil.copytree(driver.data_dir, copy)
    driver.go_on()
    asyncio.run(rebuild.rebuild(config, offsets=False, settings=True))

    async def read() -> tuple[object, ...]:
        broker = await open_engine(config, VirtualClock())
        found = held(broker.state.catalog_state)
        await broker.close()
        return found

    return asyncio.run(read())


@settings(max_examples=25)
@given(STEPS)
def test_any_history_is_restored_from_the_log_alone(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    driver = EngineDriver(folder, retention_ms=86_400_000)
    try:
        driver.make(queues=1)
        for step in steps:
            take(driver, step)
        wanted = held(driver.broker.state.catalog_state)
        assert rebuilt(driver, folder) == wanted
        assert held(driver.broker.state.catalog_state) == wanted
    finally:
        driver.close()
        shutil.rmtree(folder, ignore_errors=True)


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
