"""What is not wrong and may surprise: told beside what `doctor_checks.py` finds."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.words import counted, numbered
from popmq_readings.doctor_checks import Facts
from popmq_readings.times import moment


def surprises(brokers: Sequence[admin.BrokerState]) -> list[str]:
    """Sentences without a full stop."""
    return [*_skipped(brokers), *_draining(brokers)]


def exposed(facts: Facts) -> list[str]:
    """The same, of an endpoint that others reach."""
    if facts.is_local or facts.authentication is not False:
        return []
    return [
        f"anyone who reaches {facts.endpoint} may read, write and delete: authentication is off "
        "there; docs/security.md"
    ]


def unequal(facts: Facts) -> list[str]:
    """The same, of brokers that lack the last change of users and policies."""
    return [
        f"broker {broker} lacks the last change of users and policies, or does not answer; it gets "
        "the change when it is back"
        for broker in facts.lacking_users
    ]


def _skipped(brokers: Sequence[admin.BrokerState]) -> Iterator[str]:
    """Groups that started behind messages which are still there, over all brokers."""
    uses = [use for broker in brokers for use in broker.groups if use.skipped]
    uses.sort(key=lambda use: (use.group, use.topic))
    for (group, topic), parts in groupby(uses, key=lambda use: (use.group, use.topic)):
        found = list(parts)
        count, at_ms = sum(use.skipped for use in found), min(use.skipped_at_ms for use in found)
        yield (
            f"group {group} started at {moment(at_ms)} and skipped "
            f"{counted(count, 'message')} of topic {topic} "
            f"that had been sent before; to get all from the first on: "
            f"popmq group reset-offset {group} {topic} --to-earliest"
        )


def _draining(brokers: Sequence[admin.BrokerState]) -> Iterator[str]:
    for broker in brokers:
        for topic in broker.draining:
            now = counted(topic.write_queues, "queue")
            those = numbered("queue", topic.write_queues, topic.read_queues - 1)
            one = topic.read_queues == topic.write_queues + 1
            takes = "takes no more messages and is" if one else "take no more messages and are"
            stored, them = counted(topic.stored, "message"), "it" if one else "them"
            yield (
                f"topic {topic.topic} has {now} at {broker.name} now; its {those} {takes} read "
                f"until retention has deleted the {stored} in {them}; {_not_done(topic, broker)}"
            )


def _not_done(topic: admin.DrainingTopic, broker: admin.BrokerState) -> str:
    """With what is in the queues that are too many."""
    if topic.left:
        groups = (f"group {one.group} ({counted(one.count, 'message')})" for one in topic.left)
        return f"not done with them: {', '.join(groups)}"
    if any(use.topic == topic.topic for use in broker.groups):
        return "every group of the topic is done with them"
    return "no group has received of the topic yet"
