"""What is not wrong and may surprise: told beside what `doctor_checks.py` finds."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.times import moment
from popmq_common.words import counted


def notes(brokers: Sequence[admin.BrokerState]) -> list[str]:
    """Sentences without a full stop."""
    return [*_skipped(brokers), *_draining(brokers)]


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
            queues = counted(topic.write_queues, "queue")
            left = ", ".join(f"group {one.group} {one.count:,}" for one in topic.left)
            yield (
                f"topic {topic.topic} has {queues} at {broker.name} and is read in "
                f"{topic.read_queues} until retention has emptied those that are too many; "
                f"messages left there: {left or 'none'}"
            )
