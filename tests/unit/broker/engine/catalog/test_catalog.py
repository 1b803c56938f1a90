"""Topics and groups are changed by records of the log; the files of config/ come behind."""

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness.broker import EngineDriver
from harness.broker_calls import send_body
from harness.names import GROUP, TOPIC

from popmq_broker.core.catalog.catalog import CATALOG_FILE
from popmq_broker.engine.catalog.catalog import GROUPS_FILE, TOPICS_FILE
from popmq_common.errors import GroupExists, TooManyRequests, TopicExists
from popmq_common.records.names import CATALOG_TOPIC, retry_topic
from popmq_internal.v1 import link_pb2 as link

RANDOM = random.Random(3)
Change = Callable[[EngineDriver], object]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[EngineDriver]:
    made = EngineDriver(tmp_path)
    made.make(queues=2)
    made.run(made.broker.catalog.save())
    yield made
    made.close()


def put_topic(
    driver: EngineDriver,
    name: str,
    queues: int = 2,
    *,
    create: bool = False,
    only_new: bool = False,
) -> None:
    topic = link.TopicConfig(
        name=name, read_queues=queues, write_queues=queues, message_type="MIXED"
    )
    driver.call(put_topic=link.PutTopic(topic=topic, create=create, only_new=only_new))


def put_group(driver: EngineDriver, name: str, attempts: int = 3, *, create: bool = False) -> None:
    group = link.GroupConfig(name=name, max_attempts=attempts, consume_from="FIRST")
    driver.call(put_group=link.PutGroup(group=group, create=create))


def held(driver: EngineDriver) -> tuple[object, ...]:
    state = driver.broker.state
    return (
        dict(state.catalog_state.topics),
        dict(state.catalog_state.groups),
        dict(state.catalog_state.floors),
        state.catalog_state.perm,
    )


def queues_of(driver: EngineDriver, name: str) -> tuple[int, int]:
    topic = driver.broker.state.catalog_state.topics[name]
    return topic.write_queues, topic.read_queues


CHANGES: dict[str, Change] = {
    "a new topic": lambda driver: put_topic(driver, "new"),
    "another number of queues": lambda driver: put_topic(driver, TOPIC, 5),
    "a topic less": lambda driver: driver.call(delete_topic=link.DeleteTopic(topic=TOPIC)),
    "a new group": lambda driver: put_group(driver, "new"),
    "other settings of a group": lambda driver: put_group(driver, GROUP, 7),
    "a group less": lambda driver: driver.call(delete_group=link.DeleteGroup(group=GROUP)),
    "the permission": lambda driver: driver.call(set_permission=link.SetPermission(perm=4)),
}


@pytest.mark.parametrize("how", ["crash", "restart"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_was_answered_is_there_after(
    driver: EngineDriver, name: str, how: str
) -> None:
    driver.send("a")
    before = held(driver)
    CHANGES[name](driver)
    changed = held(driver)
    assert changed != before
    for _ in range(2):
        if how == "crash":
            driver.crash(RANDOM)
        else:
            driver.restart()
        assert held(driver) == changed


def test_a_start_does_not_forget_what_it_read_from_the_log(driver: EngineDriver) -> None:
    """Though another file is written meanwhile."""
    put_group(driver, "new")
    driver.crash(RANDOM)
    put_topic(driver, "new")
    driver.run(driver.broker.catalog.save())
    changed = held(driver)
    driver.crash(RANDOM)
    assert held(driver) == changed


def refused(driver: EngineDriver, name: str) -> bool:
    try:
        put_topic(driver, name)
    except TooManyRequests:
        return True
    return False


def test_only_users_topics_count_for_their_limit(tmp_path: Path) -> None:
    """Retry topics, dead letters and the broker's own have a limit of their own."""
    driver = EngineDriver(tmp_path, topics_max=3)
    driver.make(max_attempts=2)
    for number in range(3):  # the retry topic and the dead letters are made
        driver.send(f"{number}")
        driver.pop(invisible_ms=1_000)
        driver.advance(1_000 + number * 60_000)
    state = driver.broker.state
    assert {retry_topic(GROUP, TOPIC), CATALOG_TOPIC} <= state.catalog_state.topics.keys()
    assert [refused(driver, name) for name in ("a", "b", "c")] == [False, False, True]
    assert not refused(driver, "a")
    driver.call(delete_topic=link.DeleteTopic(topic="a"))
    assert [refused(driver, name) for name in ("c", "d")] == [False, True]
    driver.crash(RANDOM)
    assert refused(driver, "d")
    driver.restart()
    assert refused(driver, "d")
    driver.call(delete_topic=link.DeleteTopic(topic="c"))
    assert not refused(driver, "d")
    driver.close()


def test_inner_topics_have_a_limit_too(tmp_path: Path) -> None:
    driver = EngineDriver(tmp_path, inner_topics_max=4)
    room = 4 - len(driver.broker.state.catalog_state.topics)

    async def make(topic: str) -> None:
        driver.broker.topics.ensure_system_copy_target(retry_topic("g", topic))

    for number in range(room):
        driver.run(make(f"{number}"))
    with pytest.raises(TooManyRequests):
        driver.run(make("more"))
    assert not refused(driver, "of-a-user")
    driver.close()


def test_many_changes_write_no_file_until_it_is_time(driver: EngineDriver) -> None:
    config = driver.data_dir / "config"
    before = (config / TOPICS_FILE).read_bytes(), (config / GROUPS_FILE).read_bytes()
    for i in range(50):
        put_topic(driver, f"t{i}")
        put_group(driver, f"g{i}")
    assert ((config / TOPICS_FILE).read_bytes(), (config / GROUPS_FILE).read_bytes()) == before
    driver.run(driver.broker.offsets.write())
    assert "t49" in json.loads(_text(config / TOPICS_FILE))["topicConfigTable"]
    assert "g49" in json.loads(_text(config / GROUPS_FILE))["subscriptionGroupTable"]


def _text(path: Path) -> str:
    """Without the line of the checksum."""
    return path.read_text().rpartition("}")[0] + "}"


def test_a_change_while_the_files_are_written_is_not_lost(
    driver: EngineDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = driver.broker.state.runtime.store
    save_config, go_on = store.save_config, asyncio.Event()

    async def slow(name: str, text: str) -> None:
        if name == TOPICS_FILE:
            await go_on.wait()
        await save_config(name, text)

    async def both() -> None:
        monkeypatch.setattr(store, "save_config", slow)
        handle = driver.broker.handle
        saving = asyncio.ensure_future(driver.broker.catalog.save())
        await asyncio.sleep(0)
        await handle(link.Call(delete_topic=link.DeleteTopic(topic=TOPIC)))
        await handle(link.Call(delete_group=link.DeleteGroup(group=GROUP)))
        go_on.set()
        await saving

    put_topic(driver, "another")
    driver.run(both())
    changed = held(driver)
    driver.crash(RANDOM)
    assert held(driver) == changed


def test_changes_that_are_in_the_log_alone_keep_its_files(driver: EngineDriver) -> None:
    needed = driver.broker.state.runtime.retention_holds["catalog"]
    assert needed() is None
    log_end = driver.broker.state.runtime.store.log_end
    put_topic(driver, "new")
    put_topic(driver, "newer")
    assert needed() == log_end
    driver.run(driver.broker.catalog.save())
    assert needed() is None


@pytest.mark.parametrize("damage", ["gone", "older", "nonsense with a backup"])
def test_reading_changes_again_does_no_harm(driver: EngineDriver, damage: str) -> None:
    """Each says what holds from then on."""
    put_topic(driver, "new")
    driver.call(delete_topic=link.DeleteTopic(topic="new"))
    put_topic(driver, "new", 7)
    put_group(driver, "new", 1)
    put_group(driver, "new", 2)
    driver.restart()
    before = held(driver)
    path = driver.data_dir / "config" / CATALOG_FILE
    if damage == "gone":
        path.unlink()
    elif damage == "older":
        path.write_text('{"logEnd": 0}')
    else:
        path.write_text("nonsense")
    driver.crash(RANDOM)
    assert held(driver) == before


def test_a_log_that_lost_its_end_takes_new_changes(tmp_path: Path) -> None:
    """The files speak of changes that a log with flush=async has lost; its offsets come again."""
    driver = EngineDriver(tmp_path, flush="async", async_flush_interval_ms=600_000)
    driver.make(queues=2)
    driver.run(driver.broker.catalog.save())
    state = driver.broker.state
    state.runtime.store.durable = _at_once  # type: ignore[method-assign]
    put_topic(driver, "lost")
    driver.run(driver.broker.catalog.save())
    driver.crash(RANDOM)
    put_topic(driver, "new")
    driver.run(driver.broker.state.runtime.store.checkpoint())
    driver.crash(RANDOM)
    assert "new" in driver.broker.state.catalog_state.topics
    driver.close()


async def _at_once(end_offset: int) -> None:
    return


def test_create_does_not_change_what_exists(driver: EngineDriver) -> None:
    put_topic(driver, TOPIC, 2, create=True)
    with pytest.raises(TopicExists, match="popmq topic set t"):
        put_topic(driver, TOPIC, 8, create=True)
    assert queues_of(driver, TOPIC) == (2, 2)
    put_group(driver, "new", 5, create=True)
    put_group(driver, "new", 5, create=True)
    with pytest.raises(GroupExists, match="popmq group set new"):
        put_group(driver, "new", 16, create=True)
    assert driver.broker.state.catalog_state.groups["new"].max_attempts == 5


def test_fewer_queues_are_read_until_they_are_empty(driver: EngineDriver) -> None:
    put_topic(driver, TOPIC, 4)
    for queue_id in range(3):
        driver.call(**send_body(f"{queue_id}", queue_id=queue_id))
    put_topic(driver, TOPIC, 1)
    assert queues_of(driver, TOPIC) == (1, 3)
    driver.crash(RANDOM)
    assert queues_of(driver, TOPIC) == (1, 3)
    assert sorted(message.body for message in driver.pop()) == [b"0", b"1", b"2"]
    driver.retain()
    assert queues_of(driver, TOPIC) == (1, 3), "they hold messages that another group may want"


def test_queues_that_hold_nothing_any_more_are_no_longer_read(driver: EngineDriver) -> None:
    put_topic(driver, TOPIC, 3)
    driver.call(**send_body("old", queue_id=2))
    put_topic(driver, TOPIC, 1)
    for i in range(4):  # a file of the log each
        driver.call(**send_body(f"{i}" * 2_500, queue_id=0))
    driver.clock.advance(driver.broker.state.runtime.config.retention_ms + 1)
    driver.run(driver.broker.offsets.write())
    driver.retain()
    assert driver.broker.state.catalog_state.min_offset(TOPIC, 2) == 1
    assert queues_of(driver, TOPIC) == (1, 1)
    assert not driver.broker.state.catalog_state.topics[TOPIC].drains


def test_more_queues_again_end_the_draining(driver: EngineDriver) -> None:
    put_topic(driver, TOPIC, 3)
    driver.call(**send_body("old", queue_id=2))
    put_topic(driver, TOPIC, 1)
    put_topic(driver, TOPIC, 3)
    assert queues_of(driver, TOPIC) == (3, 3)
    driver.retain()
    assert queues_of(driver, TOPIC) == (3, 3)


def test_the_catalog_is_a_topic_that_clients_cannot_use(driver: EngineDriver) -> None:
    assert CATALOG_TOPIC in driver.broker.state.catalog_state.topics
    assert driver.broker.state.runtime.store.max_offset(CATALOG_TOPIC, 0) > 0
