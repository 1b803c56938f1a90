"""The whole audit: the tables of a snapshot → all that was found."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from popmq_pipelines.manifest import Manifest
from popmq_pipelines.transforms import duplicates, gaps, leases, queues, summary
from popmq_pipelines.transforms.findings import union


@dataclass(frozen=True, slots=True)
class Audit:
    states: DataFrame
    """One row per lease; everything else builds on it, so whoever runs it should keep it."""
    messages: DataFrame
    gaps: DataFrame
    duplicates: DataFrame
    revive: DataFrame
    balance: DataFrame


def lease_states(tables: Mapping[str, DataFrame], manifest: Manifest, grace_ms: int) -> DataFrame:
    index, acks = tables["commitlog_index"], tables["pop_acks"]
    return leases.lease_states(
        leases.leases(tables["pop_checkpoints"]),
        leases.ends(acks, leases.copies(acks, index)),
        tables["position_moves"],
        queues.bounds(index),
        as_of_ms=manifest.as_of_ms,
        running_since_ms=manifest.running_since_ms,
        grace_ms=grace_ms,
    )


def audit(tables: Mapping[str, DataFrame], states: DataFrame, manifest: Manifest) -> Audit:
    """`states` as `lease_states` makes them."""
    index, offsets = tables["commitlog_index"], tables["consume_offsets"]
    checkpoints, acks = tables["pop_checkpoints"], tables["pop_acks"]
    moves = tables["position_moves"]
    start, first_ms = manifest.log_start, manifest.log_first_ms
    bounds = queues.bounds(index)
    lone = gaps.orphan_acks(acks, checkpoints, log_start=start, first_ms=first_ms)
    messages = summary.message_states(states)
    return Audit(
        states=states,
        messages=messages,
        gaps=union(
            [
                gaps.overdue(states),
                gaps.uncopied(states, index),
                queues.holes(index, log_start=start),
                gaps.beyond(checkpoints, acks, moves, offsets, bounds, log_start=start),
                gaps.orphans(lone),
                gaps.unexported(index, checkpoints, moves, acks),
                gaps.skipped_by_replay(states, offsets),
            ]
        ),
        duplicates=union(
            [
                queues.stored_twice(index),
                duplicates.checkpointed_twice(states),
                duplicates.ended_twice(states),
                duplicates.leased_again(states, moves),
                duplicates.copies_without_end(index, acks),
            ]
        ),
        revive=summary.revive(index, states, lone, offsets, as_of_ms=manifest.as_of_ms),
        balance=summary.balance(messages, index),
    )
