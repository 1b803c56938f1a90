"""The whole audit: the rows of a snapshot and of the epochs it opens again → all that was found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from popmq_pipelines.audit import (
    duplicates,
    epochs,
    gaps,
    latency,
    leases,
    maximum,
    order,
    pairs,
    skips,
    summary,
    waits,
)
from popmq_pipelines.audit.leases import Rules
from popmq_pipelines.audit.skips import Told
from popmq_pipelines.audit.waits import Waits
from popmq_pipelines.frames import clock, partitioning, queues
from popmq_pipelines.frames.findings import finding, union

DUPLICATE_FAULTS: Final = ("copy without end", "commit without end", "message without mark")
"""Kinds of faults of the log that belong to recon_duplicates; the others to recon_gaps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a run judges by."""

    index: DataFrame
    """Every record that was read, for what lies beside the messages: journal and copies."""
    messages: DataFrame
    """The records with a place in a queue, of the epochs that are judged; with their `epoch`."""
    checkpoints: DataFrame
    acks: DataFrame
    moves: DataFrame
    offsets: DataFrame
    spans: DataFrame
    faults: DataFrame
    """Findings of the log, of this run and those before."""
    watermarks: DataFrame
    """Each queue's oldest and next offset, as the broker knew them at the snapshot's end."""
    told: Told
    settings: DataFrame
    """The settings of groups, of all epochs."""
    waits: Waits
    known: Sequence[int]
    judged: Sequence[int]
    whole_log: bool
    """Nothing was deleted before the first snapshot."""
    first_ms: int
    """When the first record was stored of which anything is known."""
    fresh_from: int
    """The log offset from which on this run is the first to read."""


@dataclass(frozen=True, slots=True)
class QueueTables:
    """As `frames.queues` makes them of the messages."""

    runs: DataFrame
    doubted: DataFrame
    unique: DataFrame


@dataclass(frozen=True, slots=True)
class GroupTables:
    """What is known of how groups went on; both small."""

    bounds: DataFrame
    """As `skips.bounds` makes them."""
    in_order: DataFrame
    """As `order.leases_in_order` makes them."""


@dataclass(frozen=True, slots=True)
class Audit:
    """All but `revive` have a column `epoch`."""

    wakes: DataFrame
    """What waits, and until when at most."""

    messages: DataFrame
    gaps: DataFrame
    duplicates: DataFrame
    balance: DataFrame
    arrivals: DataFrame
    settled: DataFrame
    """Both small, and as `latency` makes them: three tables are made of them."""
    revive: DataFrame


def log_faults(
    fresh: Mapping[str, DataFrame],
    before: DataFrame,
    *,
    known_ms: int,
    watermark: int,
    last: int,
    since: int | None,
) -> DataFrame:
    """Findings of the log itself. `fresh`: what is new; `before`: the one record before it, if any;
    `known_ms`: the latest store time before it; `last`: log offset of the last new record;
    `since`: as `Told` has it."""
    index, acks = fresh["commitlog_index"], fresh["pop_acks"]
    with_before = partitioning.union(index, before)
    found = [
        gaps.unexported(index, fresh["pop_checkpoints"], fresh["position_moves"], acks),
        clock.went_back(index, known_ms=known_ms, watermark=watermark),
        pairs.copies_without_end(with_before, acks, log_last=last),
    ]
    found.append(finding(fresh["queue_faults"], F.col("kind")))
    found.append(queues.one_id_two_bodies(index))
    found.append(queues.forced_primaries(index))
    if since is not None:
        found += pairs.commits(with_before, fresh["half_ends"], since=since, log_last=last)
        found += pairs.redrives(with_before, fresh["redrives"], since=since, log_last=last)
    return union(found)


def lease_states(evidence: Evidence, seen: QueueTables, rules: Rules) -> DataFrame:
    """One row per lease, with its `epoch`; everything else builds on it, so it should be kept."""
    states = leases.lease_states(
        leases.leases(evidence.checkpoints),
        leases.ends(evidence.acks, leases.copies(evidence.index)),
        leases.stored(seen.unique),
        evidence.moves,
        evidence.spans,
        rules,
    )
    return epochs.placed(states, evidence.spans, evidence.known)


def audit(
    evidence: Evidence, seen: QueueTables, states: DataFrame, gone_on: GroupTables, rules: Rules
) -> Audit:
    """`states` as `lease_states` makes them."""
    of = evidence
    lone = gaps.orphan_acks(of.acks, states, whole_log=of.whole_log, first_ms=of.first_ms)
    newest = leases.newest(states)
    groups = summary.groups(states, of.offsets)
    lacking = [*_gaps(of, seen, states, lone, rules), *_skips(of, seen, states, gone_on)]
    return Audit(
        messages=summary.message_states(newest),
        gaps=_judged(of, lacking),
        duplicates=_judged(of, _duplicates(of, seen, states)),
        balance=summary.balance(states, seen.unique, groups, kept_from=rules.kept_from),
        arrivals=latency.arrivals(seen.unique, kept_from=rules.kept_from),
        settled=latency.settled(newest, latency.journal(of.index)),
        wakes=epochs.placed(waits.wakes(of.waits, of.told.since), of.spans, of.known),
        revive=summary.revive(
            summary.revive_ends(of.spans),
            states,
            lone,
            of.offsets,
            as_of_ms=rules.as_of_ms,
            fresh_from=of.fresh_from,
        ),
    )


def _gaps(
    of: Evidence, seen: QueueTables, states: DataFrame, lone: DataFrame, rules: Rules
) -> list[DataFrame]:
    holes = queues.holes(
        seen.doubted, seen.runs, of.spans, whole_log=of.whole_log, judged=of.judged
    )
    return [
        queues.lost_tails(of.watermarks, of.spans),
        gaps.overdue(states),
        gaps.uncopied(states, kept_from=rules.kept_from),
        holes,
        gaps.beyond(
            of.checkpoints, of.acks, of.moves, of.offsets, of.spans, whole_log=of.whole_log
        ),
        gaps.orphans(lone),
        gaps.skipped_by_replay(states, of.offsets),
        *maximum.judged_by_settings(states, maximum.in_force(of.settings)),
        *_untimely(of, rules),
        of.faults.where(~F.col("kind").isin(*DUPLICATE_FAULTS)),
    ]


def _skips(
    of: Evidence, seen: QueueTables, states: DataFrame, gone_on: GroupTables
) -> list[DataFrame]:
    if of.told.since is None:
        return []
    bounds, in_order = gone_on.bounds, gone_on.in_order
    return [
        *order.out_of_order(in_order),
        order.attempts(in_order),
        order.miscounted(states),
        skips.skipped(of.told, seen.unique, states, bounds),
        skips.went_back(of.told, states, bounds),
        skips.gone(bounds),
    ]


def _untimely(of: Evidence, rules: Rules) -> list[DataFrame]:
    if of.told.since is None:
        return []
    return waits.untimely(of.waits, of.index, rules, of.told.since)


def _duplicates(of: Evidence, seen: QueueTables, states: DataFrame) -> list[DataFrame]:
    twice = [] if of.told.since is None else waits.twice(of.waits, of.told.since)
    return [
        queues.stored_twice(seen.doubted),
        duplicates.checkpointed_twice(states),
        duplicates.ended_twice(states),
        duplicates.leased_again(states, of.moves),
        *twice,
        of.faults.where(F.col("kind").isin(*DUPLICATE_FAULTS)),
    ]


def _judged(of: Evidence, found: list[DataFrame]) -> DataFrame:
    """Findings with their epoch; those of epochs that are not judged now stand as they are."""
    placed = epochs.placed(union(found), of.spans, of.known)
    return placed.where(F.col("epoch").isin(*of.judged))
