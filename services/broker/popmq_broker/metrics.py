"""The broker's /metrics: names after RocketMQ's where it has the figure.

Gauges are read from the state at each scrape, so they cannot drift from it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from popmq_broker.config import Flush, PopBuffer
from popmq_broker.core.retention import Reason
from popmq_broker.engine.broker import Broker
from popmq_broker.engine.counts import counts, dead_letters
from popmq_common.histogram import Histogram

_STANDING = {
    "stored": "Stored in the topic, from its first message on",
    "settled": "Acked, dead-lettered, filtered out, or copied to the retry topic",
    "ready": "Ready to pop",
    "inflight": "Leased",
    "blocked": "Waiting for an earlier message of their message group",
    "expired": "Deleted by retention before the group was done with them",
}
"""In the order of `Counts`."""


def registry(broker: Broker) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(BrokerCollector(broker))
    return registry


class BrokerCollector(Collector):
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def collect(self) -> Iterable[Metric]:
        yield from self._counters()
        yield from self._group_gauges()
        yield from self._store_gauges()
        yield from self._retention()
        yield from self._pop_buffer()
        yield from self._timers()
        yield from self._histograms()

    def _counters(self) -> Iterable[Metric]:
        stats = self._broker.state.stats
        yield _counter("popmq_messages_in", "Messages stored", ["topic"], stats.sent)
        group = ["topic", "consumer_group"]
        yield _counter("popmq_messages_out", "Messages handed out", group, stats.popped)
        outcome = [*group, "outcome"]
        yield _counter("popmq_acks", "Acks by what they found", outcome, stats.acked)
        text = "Changes of the invisible time by what they found"
        yield _counter("popmq_changes", text, outcome, stats.changed)
        kind = [*group, "kind"]
        yield _counter("popmq_nacks", "Messages given back or up, by kind", kind, stats.nacked)
        text = "Leases renewed because their client lives"
        yield _counter("popmq_renewed_leases", text, group, stats.renewed)
        text = "Messages put into a retry topic, not acked in time or nacked"
        yield _counter("popmq_revived_messages", text, group, stats.revived)
        text = "Messages that consumers which pull failed on"
        yield _counter("popmq_sent_back_messages", text, group, stats.sent_back)
        text = "Half messages that producers were asked about"
        yield _counter("popmq_transaction_checks", text, ["topic"], stats.checked)
        text = "Transactions that ended, by outcome"
        yield _counter("popmq_transactions", text, ["topic", "outcome"], stats.settled)
        text = "Messages put into the dead letters"
        yield _counter("popmq_send_to_dlq_messages", text, group, stats.dead)

    def _group_gauges(self) -> Iterable[Metric]:
        """Read together, so that the other five add up to stored at each scrape."""
        labels = ["topic", "consumer_group"]
        families = [
            GaugeMetricFamily(f"popmq_consumer_{name}_messages", text, labels=labels)
            for name, text in _STANDING.items()
        ]
        lag = GaugeMetricFamily(
            "popmq_consumer_lag_messages", "Ready, leased and blocked", labels=labels
        )
        for row, found in counts(self._broker.state).items():
            for family, count in zip(families, found, strict=True):
                family.add_metric(row, count)
            lag.add_metric(row, found.lag)
        text = "Stored in the dead letters of a group"
        dead = GaugeMetricFamily("popmq_dead_letter_messages", text, labels=["consumer_group"])
        for group, count in dead_letters(self._broker.state).items():
            dead.add_metric([group], count)
        return *families, lag, dead

    def _store_gauges(self) -> Iterable[Metric]:
        state = self._broker.state
        store = state.store
        yield GaugeMetricFamily(
            "popmq_flush_sync",
            "1: an answer of OK means it is on disk; 0: flush=async",
            float(state.config.flush is Flush.SYNC),
        )
        behind = store.log_end - store.durable_end
        yield GaugeMetricFamily("popmq_storage_flush_behind_bytes", "Appended, not synced", behind)
        size = store.log_end - store.log_start
        yield GaugeMetricFamily("popmq_storage_size_bytes", "Bytes of the CommitLog in use", size)
        halves = GaugeMetricFamily(
            "popmq_half_messages", "Half messages that are not settled", labels=["topic"]
        )
        for topic, count in state.halves.counts().items():
            halves.add_metric([topic], count)
        yield halves
        yield GaugeMetricFamily("popmq_leases", "Live leases", state.leases.live_count)
        text = "Clients whose leases are renewed"
        yield GaugeMetricFamily("popmq_renewing_clients", text, len(state.leases.renewals))
        yield GaugeMetricFamily("popmq_waiting_polls", "Long polls parked", state.waiters.count)
        yield GaugeMetricFamily("popmq_topics", "Topics", len(state.topics))
        text = "Consumers that pull, by group and topic"
        yield GaugeMetricFamily("popmq_pulling_consumers", text, len(state.members))
        text = "Queues that a consumer holds by an access lock"
        yield GaugeMetricFamily("popmq_locked_queues", text, state.locks.held())
        text = "Queues that a consumer has locked to consume them in order"
        held = state.queue_locks.held(state.clock.now_ms())
        yield GaugeMetricFamily("popmq_ordered_queues", text, held)
        text = "Queues with an access lock that went to another consumer"
        yield CounterMetricFamily("popmq_access_lock_taken", text, state.locks.taken)
        text = "Pulls that found their queue held by another consumer"
        yield CounterMetricFamily("popmq_access_lock_refused", text, state.locks.refused)
        yield GaugeMetricFamily("popmq_groups", "Consumer groups", len(state.groups))
        next_ms = state.leases.next_due_ms()
        late_ms = max(0, state.clock.now_ms() - next_ms) if next_ms is not None else 0
        overdue = state.leases.overdue_count(state.clock.now_ms())
        text = "Due leases that wait for their revival"
        yield GaugeMetricFamily("popmq_revive_backlog_messages", text, overdue)
        text = "How long the oldest due lease has waited for its revival"
        yield GaugeMetricFamily("popmq_revive_latency_seconds", text, late_ms / 1000)

    def _retention(self) -> Iterable[Metric]:
        state, retention = self._broker.state, self._broker.retention
        oldest_ms = state.store.oldest.oldest_ms()
        age_ms = 0 if oldest_ms is None else max(0, state.clock.now_ms() - oldest_ms)
        text = "Age of the oldest message in the CommitLog"
        yield GaugeMetricFamily("popmq_storage_oldest_message_age_seconds", text, age_ms / 1000)
        deleted = {reason.value: retention.deleted[reason] for reason in Reason}
        text = "CommitLog files deleted: by age, early because of the disk, or although needed"
        yield _counter("popmq_storage_deleted_files", text, ["reason"], deleted)
        text = "1: needs the oldest CommitLog file, which would go otherwise"
        kept = GaugeMetricFamily("popmq_storage_file_kept", text, labels=["needed_by"])
        for name in state.needs:
            kept.add_metric([name], float(name in retention.kept_for))
        yield kept
        watch = state.store.disk
        text = "Use of the disk, 0 to 1, when it was last looked at"
        yield GaugeMetricFamily("popmq_disk_used_ratio", text, watch.disk.used_ratio)
        text = "0: ok; 1: files go early; 2: sends are refused"
        yield GaugeMetricFamily("popmq_disk_state", text, watch.state.value)

    def _pop_buffer(self) -> Iterable[Metric]:
        """With pop_buffer=durable all but the first stay 0."""
        state = self._broker.state
        buffer = state.buffer
        text = "1: what was popped and acked outlives a crash; 0: pop_buffer=memory"
        durable = float(state.config.pop_buffer is PopBuffer.DURABLE)
        yield GaugeMetricFamily("popmq_pop_buffer_durable", text, durable)
        text = "Grants that are in no journal: a crash sends them again"
        yield GaugeMetricFamily("popmq_pop_buffer_grants", text, len(buffer))
        text = "Messages of these grants, acked ones included"
        yield GaugeMetricFamily("popmq_pop_buffer_leases", text, buffer.leases)
        heads = [queue.unstored.oldest_ms() for queue in state.leases.queues.values()]
        oldest_ms = min((head for head in heads if head is not None), default=None)
        age_ms = 0 if oldest_ms is None else max(0, state.clock.now_ms() - oldest_ms)
        text = "How long the oldest of these grants has waited"
        yield GaugeMetricFamily("popmq_pop_buffer_age_seconds", text, age_ms / 1000)
        text = "Grants that stayed too long, or had to precede a record, and were stored"
        yield CounterMetricFamily("popmq_pop_buffer_stored", text, buffer.stored)
        text = "Grants that were acked whole in time and never written"
        yield CounterMetricFamily("popmq_pop_buffer_merged", text, buffer.merged)
        text = "Grants that were journaled at once: held too shortly, or no room"
        yield CounterMetricFamily("popmq_pop_buffer_bypassed", text, buffer.bypassed)

    def _timers(self) -> Iterable[Metric]:
        timers = self._broker.timers
        text = "Delayed messages that wait for their time"
        yield GaugeMetricFamily("popmq_timer_messages", text, timers.wheel.message_count)
        text = "Marks of recalls, kept until the time of what they recalled"
        yield GaugeMetricFamily("popmq_timer_recall_marks", text, timers.wheel.mark_count)
        text = "How long the delayed message that is due first has been due"
        late_ms = timers.wheel.overdue_ms(self._broker.state.clock.now_ms())
        yield GaugeMetricFamily("popmq_timer_lag_seconds", text, late_ms / 1000)
        text = "Messages that wait for a delay level"
        levels = GaugeMetricFamily("popmq_timer_level_messages", text, labels=["level"])
        for level, count in timers.levels.pending().items():
            if count:
                levels.add_metric([str(level)], count)
        yield levels
        text = "Delayed messages whose wait has ended: delivered, recalled, dropped as their topic"
        text += " is gone, or damaged"
        timed = self._broker.state.stats.timed
        yield _counter("popmq_timer_ended", text, ["topic", "outcome"], timed)

    def _histograms(self) -> Iterable[Metric]:
        stats = self._broker.state.stats
        sync = HistogramMetricFamily("popmq_fsync_seconds", "Time of one fdatasync")
        _add(sync, [], stats.fsync_s)
        yield sync
        batch = HistogramMetricFamily("popmq_fsync_records", "Records that shared one fdatasync")
        _add(batch, [], stats.fsync_records)
        yield batch
        calls = HistogramMetricFamily(
            "popmq_call_seconds", "Time of a call in the broker, waiting included", labels=["call"]
        )
        for kind, histogram in stats.call_s.items():
            _add(calls, [kind], histogram)
        yield calls


def _counter(name: str, text: str, labels: list[str], counts: Mapping[Any, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts.items():
        family.add_metric([values] if isinstance(values, str) else list(values), count)
    return family


def _add(family: HistogramMetricFamily, labels: list[str], histogram: Histogram) -> None:
    family.add_metric(labels, buckets=histogram.cumulative(), sum_value=histogram.total)
