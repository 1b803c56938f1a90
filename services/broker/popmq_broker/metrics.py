"""The broker's /metrics: each figure of `metric_table`, read from the state at a scrape.

Gauges cannot drift from the state, for nobody keeps them. Rows of topics and groups are bounded.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, NamedTuple, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from popmq_broker import metric_table as m
from popmq_broker.config import Flush, PopBuffer
from popmq_broker.core.store.retention import Reason
from popmq_broker.core.transactions.transaction import TransactionOutcome
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.journal.counts import MessageCounts, counts, dead_letters
from popmq_broker.engine.journal.state import BrokerState
from popmq_common.metrics.metric import Definition, by_name
from popmq_common.metrics.metric_rows import Rows
from popmq_common.records.names import RETRY_PREFIX

TRANSACTION = "TRANSACTION"


class Link(Protocol):
    """Where proxies come in."""

    @property
    def connection_count(self) -> int: ...

    @property
    def call_count(self) -> int: ...


class NoLink(NamedTuple):
    """The proxy is in the same process."""

    connection_count: int = 0
    call_count: int = 0


def registry(broker: Broker, link: Link | None = None) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(BrokerCollector(broker, link or NoLink()))
    return registry


class BrokerCollector(Collector):
    def __init__(self, broker: Broker, link: Link | None = None) -> None:
        self._broker = broker
        self._link: Link = link or NoLink()
        rows_max = broker.state.runtime.config.metric_rows_max
        self._topics, self._groups = Rows(rows_max, 1), Rows(rows_max, 1)
        self._pairs = Rows(rows_max, 2)

    def collect(self) -> Iterable[Metric]:
        for rows in (self._topics, self._groups, self._pairs):
            rows.begin()
        standing = counts(
            self._broker.state.runtime,
            self._broker.state.catalog_state,
            self._broker.state.lease_state,
        )
        yield from self._counters(standing)
        yield from self._standing(standing)
        yield from self._store()
        yield from self._index()
        yield from self._retention()
        yield from self._exports()
        yield from self._leases()
        yield from self._pop_buffer()
        yield from self._timers()
        yield from self._clients()
        yield m.REPLACED_PEERS.many(dict.fromkeys(((name,) for name in self._replaced()), 1))
        yield from self._histograms()
        kinds = {"topic": self._topics, "group": self._groups, "topic and group": self._pairs}
        yield m.ROWS_TOGETHER.many({(name,): rows.together for name, rows in kinds.items()})

    def _replaced(self) -> list[str]:
        return sorted(self._broker.peers.replaced)

    def _counters(self, standing: Mapping[tuple[str, str], MessageCounts]) -> Iterable[Metric]:
        state = self._broker.state
        stats = self._broker.state.runtime.stats
        by_topic: dict[Definition, Mapping[Any, float]] = {
            m.MESSAGES_IN: by_name(stats.sent),
            m.REPEATED: by_name(stats.repeated),
            m.TRANSACTION_CHECKS: by_name(stats.checked),
            m.TRANSACTIONS: _no_transactions(state) | stats.settled,
            m.TIMER_ENDED: stats.timed,
        }
        by_pair: dict[Definition, Mapping[Any, float]] = {
            m.MESSAGES_OUT: stats.popped,
            m.ACKS: stats.acked,
            m.CHANGES: stats.changed,
            m.NACKS: stats.nacked,
            m.RENEWED: stats.renewed,
            m.REVIVED: stats.revived,
            m.HANDED_OUT_OFTEN: stats.handed_out_often,
            m.SENT_BACK: stats.sent_back,
            m.SEND_TO_DLQ: _no_dead_letters(state, standing) | stats.dead,
        }
        for kinds, rows in ((by_topic, self._topics), (by_pair, self._pairs)):
            for definition, found in kinds.items():
                yield definition.many(rows.counters(definition, found))

    def _standing(self, standing: Mapping[tuple[str, str], MessageCounts]) -> Iterable[Metric]:
        """Read together, so that they add up at each scrape."""
        state = self._broker.state
        for place, definition in enumerate(m.STANDING):
            values = {row: row_counts[place] for row, row_counts in standing.items()}
            yield definition.many(self._pairs.gauges(values))
        yield m.LAG.many(self._pairs.gauges({row: one.lag for row, one in standing.items()}))
        yield m.DEAD_LETTERS.many(
            self._groups.gauges(by_name(dead_letters(state.runtime, state.catalog_state)))
        )
        passed: Counter[tuple[str, str]] = Counter()
        for passer, ranges in state.runtime.damage.table.passed.items():
            passed[passer.topic, passer.group] += ranges.count
        yield m.PASSED.many(self._pairs.gauges(passed))
        yield m.HALVES.many(self._topics.gauges(by_name(state.halves.counts())))

    def _store(self) -> Iterable[Metric]:
        state = self._broker.state
        store = state.runtime.store
        damaged: Counter[str] = Counter()
        for (topic, _), ranges in state.runtime.damage.table.places.items():
            damaged[topic] += ranges.count
        yield m.DAMAGED.many(self._topics.gauges(by_name(damaged)))
        yield m.FLUSH_SYNC.one(state.runtime.config.flush is Flush.SYNC)
        yield m.FLUSH_BEHIND.one(store.log_end - store.durable_end)
        yield m.STORAGE_SIZE.one(store.log_end - store.log_start)
        yield m.APPENDED.one(store.log_end)
        yield m.TOPICS.one(len(state.catalog_state.topics))
        yield m.GROUPS.one(len(state.catalog_state.groups))

    def _index(self) -> Iterable[Metric]:
        index = self._broker.state.runtime.store.index
        yield m.INDEX_BEHIND.one(0 if index is None else index.behind_bytes)
        yield m.INDEX_STOPPED.one(index is not None and index.failed is not None)

    def _retention(self) -> Iterable[Metric]:
        state = self._broker.state
        retention = self._broker.retention
        oldest_ms = state.runtime.store.oldest.oldest_ms()
        age_ms = 0 if oldest_ms is None else max(0, state.runtime.clock.now_ms() - oldest_ms)
        yield m.OLDEST_AGE.one(age_ms / 1000)
        deleted = {(reason.value,): retention.deleted[reason] for reason in Reason}
        yield m.DELETED_FILES.many(deleted)
        kept = {
            (name,): float(name in retention.kept_for) for name in state.runtime.retention_holds
        }
        yield m.FILE_KEPT.many(kept)
        yield m.DISK_USED.one(state.runtime.store.disk.disk.used_ratio)
        yield m.DISK_STATE.one(state.runtime.store.disk.state.value)

    def _exports(self) -> Iterable[Metric]:
        exports = self._broker.exports
        yield m.EXPORTS.many(by_name(exports.ended))
        now_ms, last_ms = self._broker.state.runtime.clock.now_ms(), exports.completed_ms
        yield m.EXPORT_AGE.many({} if last_ms is None else {(): (now_ms - last_ms) / 1000})

    def _leases(self) -> Iterable[Metric]:
        state = self._broker.state
        now_ms = state.runtime.clock.now_ms()
        yield m.LEASES.one(state.lease_state.table.live_count)
        yield m.RENEWING_CLIENTS.one(len(state.lease_state.table.renewals))
        yield m.REVIVE_BACKLOG.one(state.lease_state.table.overdue_count(now_ms))
        yield m.REVIVE_LATENCY.one(state.lease_state.table.late_ms(now_ms) / 1000)
        yield m.WAITING_POLLS.one(state.runtime.long_polls.count)

    def _pop_buffer(self) -> Iterable[Metric]:
        state = self._broker.state
        buffer = state.lease_state.buffer
        yield m.BUFFER_DURABLE.one(state.runtime.config.pop_buffer is PopBuffer.DURABLE)
        yield m.BUFFER_GRANTS.one(len(buffer))
        yield m.BUFFER_LEASES.one(buffer.leases)
        heads = [queue.unstored.oldest_ms() for queue in state.lease_state.table.queues.values()]
        oldest_ms = min((head for head in heads if head is not None), default=None)
        age_ms = 0 if oldest_ms is None else max(0, state.runtime.clock.now_ms() - oldest_ms)
        yield m.BUFFER_AGE.one(age_ms / 1000)
        yield m.BUFFER_STORED.one(buffer.stored)
        yield m.BUFFER_MERGED.one(buffer.merged)
        yield m.BUFFER_BYPASSED.one(buffer.bypassed)

    def _timers(self) -> Iterable[Metric]:
        timers = self._broker.timers
        yield m.TIMERS.one(timers.wheel.message_count)
        yield m.TIMER_MARKS.one(timers.wheel.mark_count)
        late_ms = timers.wheel.overdue_ms(self._broker.state.runtime.clock.now_ms())
        yield m.TIMER_LAG.one(late_ms / 1000)
        levels = timers.levels.pending().items()
        yield m.TIMER_LEVELS.many({(str(level),): count for level, count in levels if count})

    def _clients(self) -> Iterable[Metric]:
        state = self._broker.state
        yield m.PULLING.one(len(state.consumer_state.members))
        yield m.LOCKED.one(state.consumer_state.locks.held())
        yield m.ORDERED.one(state.consumer_state.queue_locks.held(state.runtime.clock.now_ms()))
        yield m.LOCK_TAKEN.one(state.consumer_state.locks.taken)
        yield m.LOCK_REFUSED.one(state.consumer_state.locks.refused)
        yield m.LINK_PROXIES.one(self._link.connection_count)
        yield m.LINK_CALLS.one(self._link.call_count)

    def _histograms(self) -> Iterable[Metric]:
        stats = self._broker.state.runtime.stats
        yield m.FSYNC.spread({(): stats.fsync_s})
        yield m.FSYNC_RECORDS.spread({(): stats.fsync_records})
        yield m.CALL.spread({(kind,): found for kind, found in stats.call_s.items()})


# Alerts ask whether a counter has risen. One that is first seen at 1 has not, so what may come is
# shown at 0 before.


def _no_dead_letters(
    state: BrokerState, standing: Mapping[tuple[str, str], MessageCounts]
) -> dict[tuple[str, str], int]:
    """Of each topic and group that consumes it."""
    popped = {(topic, group) for topic, group in standing if not topic.startswith(RETRY_PREFIX)}
    return dict.fromkeys(sorted(popped | state.runtime.stats.sent_back.keys()), 0)


def _no_transactions(state: BrokerState) -> dict[tuple[str, str], int]:
    """Of each topic that has transactions, or is made for them."""
    made = {
        topic.name
        for topic in state.catalog_state.topics.values()
        if topic.message_type == TRANSACTION
    }
    ended = {topic for topic, _ in state.runtime.stats.settled}
    topics = made | ended | state.halves.counts().keys()
    return dict.fromkeys(
        product(sorted(topics), [outcome.value for outcome in TransactionOutcome]), 0
    )
