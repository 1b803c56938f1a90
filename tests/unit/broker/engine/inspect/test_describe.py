"""What is told of all topics and groups at once, as lists of them ask for it."""

from harness.broker import EngineDriver
from harness.names import GROUP, TOPIC

from popmq_internal.v1 import link_pb2 as link


def names(
    driver: EngineDriver, *, no_topics: bool = False, no_groups: bool = False
) -> tuple[set[str], set[str]]:
    """(topics, groups)"""
    asked = link.Describe(settings_only=True, no_topics=no_topics, no_groups=no_groups)
    reply = driver.call(describe=asked).describe
    topics = {one.config.name for one in reply.topics if not one.config.name.startswith("rmq_sys")}
    return topics, {one.config.name for one in reply.groups}


def test_a_list_asks_for_the_one_or_the_other(driver: EngineDriver) -> None:
    driver.make()
    assert names(driver) == ({TOPIC}, {GROUP})
    assert names(driver, no_groups=True) == ({TOPIC}, set())
    assert names(driver, no_topics=True) == (set(), {GROUP})


def test_what_was_made_changed_and_deleted_since_is_told(driver: EngineDriver) -> None:
    driver.make(queues=2)
    assert names(driver)[0] == {TOPIC}
    other = link.TopicConfig(name="other", read_queues=1, write_queues=1, message_type="NORMAL")
    driver.call(put_topic=link.PutTopic(topic=other))
    assert names(driver)[0] == {TOPIC, "other"}
    driver.call(delete_topic=link.DeleteTopic(topic=TOPIC))
    assert names(driver)[0] == {"other"}
    other.read_queues = other.write_queues = 5
    driver.call(put_topic=link.PutTopic(topic=other))
    reply = driver.call(describe=link.Describe(settings_only=True)).describe
    assert [one.config.write_queues for one in reply.topics if one.config.name == "other"] == [5]
    assert not any(one.queues for one in reply.topics)


def test_a_group_that_was_changed_is_told_as_it_is(driver: EngineDriver) -> None:
    driver.make(max_attempts=3)
    for attempts in (3, 7):
        group = link.GroupConfig(name=GROUP, max_attempts=attempts, consume_from="FIRST")
        driver.call(put_group=link.PutGroup(group=group))
        reply = driver.call(describe=link.Describe(settings_only=True)).describe
        assert [one.config.max_attempts for one in reply.groups] == [attempts]
    driver.call(delete_group=link.DeleteGroup(group=GROUP))
    assert names(driver)[1] == set()
