"""What a broker holds and does, for who looks at the whole cluster: `popmq cluster`, `popmq top`.

The same counts as /metrics, without Prometheus: read at one moment, bounded, totals since the
broker's start. Whoever asks twice knows the rates.
"""

from collections import Counter
from typing import Final

from popmq_broker.config import Flush, PopBuffer
from popmq_broker.core.catalog.proxies import Proxies
from popmq_broker.core.transactions.transaction_table import HalfTable
from popmq_broker.engine.catalog.peers import Peers
from popmq_broker.engine.journal.catalog_state import CatalogState
from popmq_broker.engine.journal.consumer_state import ConsumerState
from popmq_broker.engine.journal.counts import MessageCounts, counts, dead_letters
from popmq_broker.engine.journal.lease_state import LeaseState
from popmq_broker.engine.journal.long_polls import GroupTopic
from popmq_broker.engine.journal.runtime import Runtime
from popmq_broker.engine.timers.timer import Timers
from popmq_common.process.installed import version
from popmq_common.process.process_use import cpu_ms, memory_bytes
from popmq_common.records.names import RETRY_PREFIX, is_user_topic, retry_topic
from popmq_internal.v1 import link_pb2 as link

ROWS_MAX: Final = 100
"""Topics and groups that are told."""
_DONE: Final = "done"


class Figures:
    def __init__(
        self,
        runtime: Runtime,
        catalog_state: CatalogState,
        lease_state: LeaseState,
        consumer_state: ConsumerState,
        halves: HalfTable,
        timers: Timers,
        peers: Peers,
    ) -> None:
        self._peers = peers
        self._runtime = runtime
        self._catalog_state = catalog_state
        self._lease_state = lease_state
        self._consumer_state = consumer_state
        self._halves = halves
        self._timers = timers
        self._proxies = Proxies()
        self._started_ms = runtime.clock.now_ms()

    async def proxy_here(self, request: link.ProxyFigures) -> link.Done:
        self._proxies.heard(request, self._runtime.clock.now_ms())
        return link.Done()

    async def figures(self, request: link.Figures) -> link.FiguresReply:
        runtime = self._runtime
        config, stats = self._runtime.config, self._runtime.stats
        now_ms = runtime.clock.now_ms()
        runtime.store.disk.takes_sends(now_ms)  # looks at the disk, once a second at most
        disk = runtime.store.disk
        durable = config.flush is Flush.SYNC and config.pop_buffer is PopBuffer.DURABLE
        acked = {key: n for key, n in stats.acked.items() if key[2] == _DONE}
        topics, groups = self._topics(), self._groups()
        return link.FiguresReply(
            version=version(),
            now_ms=now_ms,
            started_ms=self._started_ms,
            cpu_ms=cpu_ms(),
            memory_bytes=memory_bytes(),
            disk_total_bytes=disk.disk.total_bytes,
            disk_free_bytes=disk.disk.free_bytes,
            disk_state=disk.state.value,
            stored=sum(n for topic, n in stats.sent.items() if is_user_topic(topic)),
            handed_out=stats.popped.total(),
            acked=sum(acked.values()),
            timers=self._timers.wheel.message_count + sum(self._timers.levels.pending().values()),
            half=sum(self._halves.counts().values()),
            dead=sum(dead_letters(runtime, self._catalog_state).values()),
            late_ms=max(
                self._timers.wheel.overdue_ms(now_ms), self._lease_state.table.late_ms(now_ms)
            ),
            unsynced_bytes=runtime.store.log_end - runtime.store.durable_end,
            waiting_polls=runtime.long_polls.count,
            answers_early=not durable,
            topics=topics[:ROWS_MAX],
            groups=groups[:ROWS_MAX],
            topics_left_out=max(0, len(topics) - ROWS_MAX),
            groups_left_out=max(0, len(groups) - ROWS_MAX),
            proxies=self._proxies.alive(now_ms),
            replaced_peers=sorted(self._peers.replaced),
        )

    def _topics(self) -> list[link.TopicFigures]:
        """Those with the most messages since the start first."""
        sent = [(n, topic) for topic, n in self._runtime.stats.sent.items() if is_user_topic(topic)]
        return [link.TopicFigures(topic=topic, stored=n) for n, topic in sorted(sent, reverse=True)]

    def _groups(self) -> list[link.GroupFigures]:
        """One of each group and topic, those with the most messages left first."""
        found = counts(self._runtime, self._catalog_state, self._lease_state)
        stats = self._runtime.stats
        acked = Counter({key[:2]: n for key, n in stats.acked.items() if key[2] == _DONE})
        figures = []
        for (topic, group), row in found.items():
            if topic.startswith(RETRY_PREFIX):
                continue
            retry = retry_topic(group, topic)
            rows = [row, *filter(None, [found.get((retry, group))])]
            one = self._of_group(group, topic, rows)
            one.handed_out = stats.popped[topic, group]
            one.acked = acked[topic, group]
            figures.append(one)
        return sorted(figures, key=lambda one: (-_lag(one), one.group, one.topic))

    def _of_group(self, group: str, topic: str, rows: list[MessageCounts]) -> link.GroupFigures:
        last = self._consumer_state.receives.of(group, topic)
        return link.GroupFigures(
            group=group,
            topic=topic,
            ready=sum(one.ready for one in rows),
            in_flight=sum(one.in_flight for one in rows),
            delayed=sum(one.delayed for one in rows),
            blocked=sum(one.blocked for one in rows),
            unaccounted=sum(one.unaccounted for one in rows),
            waiting_polls=self._runtime.long_polls.waiting(GroupTopic(group, topic)),
            last_receive_ms=0 if last is None else last.at_ms,
        )


def _lag(one: link.GroupFigures) -> int:
    return one.ready + one.in_flight + one.delayed + one.blocked
