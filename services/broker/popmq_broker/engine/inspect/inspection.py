"""How a broker is: clock, disk, whose files it has, who consumes. For `popmq doctor`."""

import asyncio
from collections import Counter
from typing import Final

from popmq_broker.core.catalog.tables import TopicConfig
from popmq_broker.core.groups.starts import GroupStart, StartKey
from popmq_broker.core.store.retention import DiskState
from popmq_broker.engine.catalog.peers import Peers
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.counts import MessageCounts, counts, known_queues, of_queue
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.long_polls import GroupTopic
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.store.files.ownership import foreign_owner
from popmq_common.process.installed import version
from popmq_common.records.names import RETRY_PREFIX, retry_topic
from popmq_internal.v1 import link_pb2 as link

NO_START: Final = GroupStart(0, 0)
TOPICS_MAX: Final = 1_000
"""Topics told that are read in more queues than they take messages in."""
GROUPS_MAX: Final = 1_000
"""Groups and topics told, those with the most messages left."""

PLACES_MAX: Final = 100
"""Damaged places told, and groups that went over some."""


class Inspection:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        lease_state: LeaseState,
        consumer_state: ConsumerState,
        peers: Peers,
    ) -> None:
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._consumer_state = consumer_state
        self._peers = peers
        self._started_ms = runtime.clock.now_ms()

    async def inspect(self, request: link.Inspect) -> link.InspectReply:
        runtime = self._runtime
        config = self._runtime.config
        owner = await asyncio.to_thread(foreign_owner, config.data_dir)
        runtime.store.disk.look(runtime.clock.now_ms())
        disk, index = runtime.store.disk.disk, runtime.store.index
        return link.InspectReply(
            broker=config.name,
            version=version(),
            now_ms=runtime.clock.now_ms(),
            started_ms=self._started_ms,
            data_dir=str(config.data_dir.absolute()),
            disk_total_bytes=disk.total_bytes,
            disk_free_bytes=disk.free_bytes,
            disk_clean_percent=config.disk_clean_percent,
            disk_refuse_percent=config.disk_refuse_percent,
            disk_reserve_bytes=config.disk_reserve_bytes,
            data_dir_owner=owner,
            groups=self._uses(),
            index_failed="" if index is None or index.failed is None else str(index.failed),
            refusing=runtime.store.disk.state is DiskState.REFUSING,
            replaced_peers=sorted(self._peers.replaced),
            damaged=self._damaged(),
            passed=self._passed(),
            damaged_count=runtime.damage.table.count,
            draining=self._draining(),
        )

    def _damaged(self) -> list[link.DamagedPlace]:
        found = [
            link.DamagedPlace(
                topic=topic, queue_id=queue_id, from_offset=run.start, until_offset=run.end
            )
            for (topic, queue_id), ranges in sorted(self._runtime.damage.table.places.items())
            for run in ranges
        ]
        return found[:PLACES_MAX]

    def _passed(self) -> list[link.PassedOver]:
        found = [
            link.PassedOver(
                group=passer.group,
                topic=passer.topic,
                queue_id=passer.queue_id,
                count=ranges.count,
                pulls=passer.pulls,
            )
            for passer, ranges in sorted(self._runtime.damage.table.passed.items())
        ]
        return found[:PLACES_MAX]

    def _draining(self) -> list[link.DrainingTopic]:
        """By name, the first `TOPICS_MAX`."""
        runtime, catalog_state = self._runtime, self._catalog_state
        topics = sorted(name for name, topic in catalog_state.topics.items() if topic.drains)[
            :TOPICS_MAX
        ]
        draining = {
            name: _drained(runtime, catalog_state, catalog_state.topics[name]) for name in topics
        }
        left: Counter[tuple[str, str]] = Counter()
        for key, queue in (
            known_queues(catalog_state, self._lease_state).items() if draining else ()
        ):
            if (
                key.topic in draining
                and key.queue_id >= catalog_state.topics[key.topic].write_queues
            ):
                left[key.topic, key.group] += of_queue(runtime, catalog_state, queue).lag
        for (topic, group), count in sorted(left.items()):
            if count and group in catalog_state.groups:
                draining[topic].left.add(group=group, count=count)
        return list(draining.values())

    def _uses(self) -> list[link.GroupUse]:
        """One of each group and topic, retries counted with the topic."""
        runtime = self._runtime
        found, oldest_ms = (
            counts(runtime, self._catalog_state, self._lease_state),
            _oldest_ms(runtime),
        )
        uses = [
            self._use(group, topic, row, found.get((retry_topic(group, topic), group)), oldest_ms)
            for (topic, group), row in found.items()
            if not topic.startswith(RETRY_PREFIX)
        ]
        return sorted(uses, key=lambda use: -use.lag)[:GROUPS_MAX]

    def _use(
        self,
        group: str,
        topic: str,
        row: MessageCounts,
        retries: MessageCounts | None,
        oldest_ms: int,
    ) -> link.GroupUse:
        last = self._consumer_state.receives.of(group, topic)
        start = self._catalog_state.starts.get(StartKey(group, topic))
        if start is None or start.at_ms < oldest_ms:  # retention has deleted what was skipped
            start = NO_START
        rows = [row] if retries is None else [row, retries]
        return link.GroupUse(
            skipped=start.skipped,
            skipped_at_ms=start.at_ms if start.skipped else 0,
            group=group,
            topic=topic,
            lag=sum(one.lag for one in rows),
            in_flight=sum(one.in_flight + one.delayed for one in rows),
            waiting_polls=self._runtime.long_polls.waiting(GroupTopic(group, topic)),
            last_receive_ms=0 if last is None else last.at_ms,
        )


def _oldest_ms(runtime: Runtime) -> int:
    """When the oldest record that is left was stored; 0: nothing was deleted yet."""
    return (runtime.store.oldest.oldest_ms() or 0) if runtime.store.log_start else 0


def _drained(
    runtime: Runtime, catalog_state: CatalogState, topic: TopicConfig
) -> link.DrainingTopic:
    ids = range(topic.write_queues, topic.read_queues)
    return link.DrainingTopic(
        topic=topic.name,
        write_queues=topic.write_queues,
        read_queues=topic.read_queues,
        stored=sum(
            runtime.store.max_offset(topic.name, i) - catalog_state.min_offset(topic.name, i)
            for i in ids
        ),
    )
