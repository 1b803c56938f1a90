"""What tests ask of a broker's state; all of it on the broker's event loop."""

from typing import Final

from popmq_broker.core.leases.leases import GroupQueueState
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.journal.counts import known_queues, of_queue
from popmq_common.records import properties as names
from popmq_common.records.names import RETRY_PREFIX, dead_letter_topic, retry_topic
from popmq_common.records.receipt import Receipt, encode
from popmq_internal.v1 import link_pb2 as link
from popmq_proxy.core.explain.timeline import explained
from popmq_testing.views import DeadLetterView, GroupView, SentMessage, TopicView

PAGE: Final = 1_000


async def topic(broker: Broker, name: str) -> TopicView:
    state = broker.state
    found: list[tuple[int, SentMessage]] = []
    config = state.catalog_state.topics.get(name)
    for queue_id in range(config.read_queues if config else 0):
        at = state.catalog_state.min_offset(name, queue_id)
        while entries := state.runtime.store.entries(name, queue_id, at, PAGE):
            at += len(entries)
            records = [state.runtime.store.read(one.log_offset, one.size_bytes) for one in entries]
            for record in records:
                if record is None:
                    continue
                named = names.decode(record.properties)
                message = SentMessage(
                    topic=name,
                    body=record.body,
                    message_id=named.get(names.UNIQ_KEY, ""),
                    tag=named.get(names.TAGS, ""),
                    keys=tuple(named.get(names.KEYS, "").split()),
                    message_group=named.get(names.SHARDING_KEY, ""),
                    properties={k: v for k, v in named.items() if k not in names.INTERNAL},
                    stored_ms=record.store_timestamp_ms,
                )
                found.append((record.log_offset, message))
    return TopicView(name, [message for _, message in sorted(found, key=lambda one: one[0])])


async def groups(broker: Broker, name: str) -> list[GroupView]:
    """Of one group, or of all; retries are counted with their topic."""
    rows: dict[tuple[str, str], list[int]] = {}
    for key, queue in known_queues(broker.state.catalog_state, broker.state.lease_state).items():
        if name not in ("", key.group):
            continue
        counted = of_queue(broker.state.runtime, broker.state.catalog_state, queue)
        consumed = key.topic
        if consumed.startswith(RETRY_PREFIX):
            consumed = consumed.removeprefix(f"{RETRY_PREFIX}{key.group}_")
        row = rows.setdefault((key.group, consumed), [0, 0, 0, 0])
        more = (counted.ready, counted.in_flight, counted.delayed, counted.blocked)
        row[:] = [a + b for a, b in zip(row, more, strict=True)]
    return [GroupView(group, consumed, *row) for (group, consumed), row in sorted(rows.items())]


async def dead_letters(broker: Broker, group: str) -> list[DeadLetterView]:
    if (
        group not in broker.state.catalog_state.groups
        and dead_letter_topic(group) not in broker.state.catalog_state.topics
    ):
        return []
    found: list[DeadLetterView] = []
    offset = 0
    while offset >= 0:
        asked = link.ListDeadLetters(group=group, from_offset=offset, count_max=PAGE, whole=True)
        reply = (await broker.handle(link.Call(list_dead_letters=asked))).list_dead_letters
        found += [
            DeadLetterView(
                topic=letter.topic,
                body=letter.body,
                message_id=letter.message_id,
                attempts=letter.attempts,
                reason=letter.reason,
                redriven=letter.redriven,
            )
            for letter in reply.letters
        ]
        offset = reply.next_offset
    return found


async def explain(broker: Broker, message_id: str, group: str) -> str:
    asked = link.Explain(message_id=message_id, group=group)
    reply = (await broker.handle(link.Call(explain=asked))).explain
    verdicts = explained(message_id, "", {broker.name: reply}).verdicts
    return "\n".join(f"{one.group or 'every group'}: {one.state}: {one.text}" for one in verdicts)


async def expire(broker: Broker, message_id: str, group: str) -> int:
    """End the leases of a message, of one group or of all; how many."""
    wanted = f"{names.UNIQ_KEY}{names.NAME_END}{message_id}{names.VALUE_END}".encode()
    count = 0
    for queue in list(broker.state.lease_state.table.queues.values()):
        if group not in ("", queue.key.group):
            continue
        for offset, lease in list(queue.leases.items()):
            record = broker.state.runtime.store.read(lease.log_offset, lease.size_bytes)
            if record is not None and wanted in record.properties and lease.grant.nack is None:
                await _end(broker, queue, offset)
                count += 1
    while await broker.revive.revive_due():
        pass
    return count


async def _end(broker: Broker, queue: GroupQueueState, offset: int) -> None:
    """A counted nack without a delay does to a message what the end of its time does."""
    lease = queue.leases[offset]
    key = queue.key
    consumed = key.topic.removeprefix(f"{RETRY_PREFIX}{key.group}_")
    retried = key.topic == retry_topic(key.group, consumed)
    receipt = Receipt(
        start_offset=lease.grant.start_offset,
        pop_time_ms=lease.grant.pop_time_ms,
        invisible_ms=lease.grant.invisible_ms,
        revive_queue=lease.grant.revive_queue,
        retry_mark=1 if retried else 0,
        broker=broker.name,
        queue_id=key.queue_id,
        queue_offset=offset,
        log_offset=lease.log_offset,
        generation=lease.grant.generation,
    )
    nack = link.Nack(
        group=key.group,
        topic=consumed,
        handles=[encode(receipt, key.group, consumed)],
        kind=link.NACK_KIND_COUNTED,
        delay_ms=0,
    )
    await broker.handle(link.Call(nack=nack))
