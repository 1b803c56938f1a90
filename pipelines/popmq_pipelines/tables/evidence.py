"""From a snapshot and the ledger to what a run judges by; `Fresh` is what the snapshot adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from popmq_common.records.names import REVIVE_PREFIX
from popmq_pipelines.audit import epochs, skips, waits
from popmq_pipelines.audit.audit import Evidence, log_faults
from popmq_pipelines.audit.skips import Told
from popmq_pipelines.audit.waits import Waits
from popmq_pipelines.export.parquet_table import arrow_schema
from popmq_pipelines.frames import queues
from popmq_pipelines.frames.partitioning import together, union
from popmq_pipelines.frames.queues import queued
from popmq_pipelines.snapshot.columns import SNAPSHOT_TABLES
from popmq_pipelines.snapshot.schemas import struct
from popmq_pipelines.tables import ledger as ledgers
from popmq_pipelines.tables import ledger_tables, opened_snapshot, results
from popmq_pipelines.tables.ledger import EPOCHS_MAX, Epoch, Ledger
from popmq_pipelines.tables.opened_snapshot import OpenedSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Fresh:
    """What is new in a snapshot: its rows are in the ledger's folder, its epoch not yet in it."""

    epoch: Epoch
    known: list[int]
    offsets: DataFrame
    spans: DataFrame
    watermarks: DataFrame
    offsets_log_end: int
    kept_from: int


def keep(spark: SparkSession, out: Path, ledger: Ledger, snapshot: OpenedSnapshot) -> Fresh:
    """Puts into the ledger what the snapshot adds."""
    newest = ledger.newest
    number = newest.number + 1 if newest else 1
    _keep_rows(spark, out, ledger, snapshot, number)
    epoch = _epoch(ledger, snapshot, number)
    rows = {table: _one(spark, out, table, epoch) for table in ledger_tables.KEPT}
    index = rows["commitlog_index"]
    known = [*(one.number for one in ledger.epochs), number]
    carried = ledger_tables.read(spark, out, "spans", known[:-1]) if newest else None
    ledger_tables.write(out, number, "spans", epochs.spans(index, carried, number))
    ledger_tables.write(out, number, "moves", rows["position_moves"])
    spans = ledger_tables.read(spark, out, "spans", known)
    before = records(spark, [newest.last_row] if newest else [])
    new = _looked_at(index, newest, opened_snapshot.told_from(snapshot))
    last_one = index.where(F.col("log_offset") == F.lit(new.last_log_offset))
    last_row = next(iter(results.taken(last_one, 1)), None)
    begins = skips.begins(
        rows["pop_checkpoints"],
        rows["passes"],
        rows["position_moves"],
        since=new.told_since,
        since_ms=new.told_since_ms,
    )
    ledger_tables.write(out, number, "begins", begins)
    faults = log_faults(
        rows,
        before,
        known_ms=newest.latest_ms if newest else 0,
        watermark=ledger.watermark,
        last=last_row["log_offset"] if last_row else 0,
        since=new.told_since,
    )
    ledger_tables.write(out, number, "faults", faults)
    tables = opened_snapshot.read_tables(spark, snapshot)
    offsets, watermarks = tables["consume_offsets"], tables["queue_watermarks"]
    ledger_tables.write(out, number, "positions", offsets)
    touched = [number]
    if newest:
        earlier = ledger_tables.read(spark, out, "positions", [newest.number])
        moved = skips.moved_places(earlier, offsets, rows["position_moves"])
        strange = epochs.strange_positions(offsets, spans)
        tails = queues.beyond_the_log(watermarks, spans).select(*queues.PLACE)
        places = union(_named(rows, before), strange, tails)
        gone_over = skips.epochs_between(moved, spans)
        in_all = union(epochs.touched(places, spans, known), gone_over)
        touched = sorted({row["epoch"] for row in results.taken(in_all, 2 * EPOCHS_MAX)})
    epoch = replace(
        epoch,
        touched=touched,
        last_row=last_row or (newest.last_row if newest else None),
        latest_ms=new.latest_ms,
        told_since=new.told_since,
        told_since_ms=new.told_since_ms,
        told_from=opened_snapshot.told_from(snapshot),
    )
    return Fresh(
        epoch=epoch,
        known=known,
        offsets=offsets,
        spans=spans,
        watermarks=watermarks,
        offsets_log_end=snapshot.whole.offsets_log_end,
        kept_from=opened_snapshot.kept_from(snapshot),
    )


def _named(rows: Mapping[str, DataFrame], before: DataFrame) -> DataFrame:
    """The places that new rows are about. Of the record before them only a copy, which may wait for
    its end, opens its epoch."""
    copies = before.where(F.col("first_pop_time_ms").isNotNull())
    return union(
        epochs.named_places(
            union(rows["commitlog_index"], copies),
            rows["pop_checkpoints"],
            rows["pop_acks"],
            rows["position_moves"],
        ),
        waits.ended_places(rows["timer_ends"], rows["half_ends"], rows["redrives"]),
    )


class _NewRecords(NamedTuple):
    last_log_offset: int | None
    """None: there are none."""
    latest_ms: int
    """The latest store time so far."""
    told_since: int | None
    """The log offset from which on it is told how groups go over messages."""
    told_since_ms: int


def _looked_at(index: DataFrame, newest: Epoch | None, told_from: int | None) -> _NewRecords:
    """`index`: the new records."""
    is_told = F.col("topic").startswith(REVIVE_PREFIX) & (F.col("queue_id") == 0)
    is_told &= F.col("queue_offset") >= F.lit(told_from)
    first_told = F.min(F.when(is_told, F.struct("log_offset", "store_timestamp_ms")))
    last = F.max("log_offset").alias("last")
    latest = F.max("store_timestamp_ms").alias("ms")
    (found,) = results.taken(index.agg(last, latest, first_told.alias("told")), 1)
    latest_ms = max(found["ms"] or 0, newest.latest_ms if newest else 0)
    since, since_ms = found["told"] or (None, 0)
    if told_from is None:
        since, since_ms = None, 0
    elif newest is not None and newest.told_since is not None and newest.told_from == told_from:
        since, since_ms = newest.told_since, newest.told_since_ms
    elif not told_from:
        since_ms = 0
    return _NewRecords(found["last"], latest_ms, since, since_ms)


def _keep_rows(
    spark: SparkSession, out: Path, ledger: Ledger, snapshot: OpenedSnapshot, number: int
) -> None:
    """Linked files cost nothing; of a snapshot that tells again what is known, only the rest."""
    ledger_tables.drop(out, number)
    watermark = ledger.watermark
    repeats = snapshot.whole.log_from < watermark
    tables = opened_snapshot.read_tables(spark, snapshot) if repeats else {}
    for table in ledger_tables.KEPT:
        if repeats:
            ledger_tables.keep_rows(out, number, table, epochs.since(tables[table], watermark))
        else:
            ledger_tables.keep_files(out, number, table, opened_snapshot.files(snapshot, table))


def _epoch(ledger: Ledger, snapshot: OpenedSnapshot, number: int) -> Epoch:
    manifest = snapshot.whole
    return Epoch(
        number=number,
        snapshot_id=snapshot.id,
        manifest_sha256=snapshot.manifest_sha256 or "",
        log_from=ledger.watermark if ledger.epochs else manifest.log_from,
        log_end=manifest.log_end,
        log_first_ms=manifest.log_first_ms,
        latest_ms=0,
        last_row=None,
        lease_count=int(manifest.files["pop_checkpoints"]["rows"]),
        as_of_ms=manifest.as_of_ms,
        taken_ms=manifest.taken_ms,
    )


def _one(spark: SparkSession, out: Path, table: str, epoch: Epoch) -> DataFrame:
    (frame,) = ledger_tables.rows(spark, out, table, [epoch])
    return frame


def records(spark: SparkSession, rows: Sequence[Mapping[str, Any] | None]) -> DataFrame:
    """A few rows of commitlog_index."""
    told = [dict(row) for row in rows if row is not None]
    table = pa.Table.from_pylist(told, arrow_schema(SNAPSHOT_TABLES["commitlog_index"]))
    return together(spark.createDataFrame(table, struct("commitlog_index")))


def gather(
    spark: SparkSession, out: Path, ledger: Ledger, fresh: Fresh, judged: Sequence[int]
) -> Evidence:
    """`ledger` has the fresh epoch already."""
    sources = ledgers.sources(ledger, judged)
    everything = list(judged) == fresh.known

    def rows(table: str) -> DataFrame:
        return union(*ledger_tables.rows(spark, out, table, sources))

    def of_judged(frame: DataFrame) -> DataFrame:
        placed = epochs.placed(frame, fresh.spans, fresh.known)
        return placed if everything else placed.where(F.col("epoch").isin(*judged))

    index = rows("commitlog_index")
    moves = ledger_tables.read(spark, out, "moves", fresh.known)
    first = ledger.epochs[0]
    told = Told(
        moves=moves,
        passes=ledger_tables.read(spark, out, "passes", fresh.known),
        begins=ledger_tables.read(spark, out, "begins", fresh.known),
        offsets=fresh.offsets,
        since=fresh.epoch.told_since,
        offsets_log_end=fresh.offsets_log_end,
        whole_log=first.log_from == 0,
        kept_from=fresh.kept_from,
    )
    return Evidence(
        index=union(index, records(spark, _rows_before(ledger, sources))),
        messages=of_judged(queued(index)),
        checkpoints=of_judged(rows("pop_checkpoints")).drop("epoch"),
        acks=of_judged(rows("pop_acks")).drop("epoch"),
        moves=moves,
        watermarks=fresh.watermarks,
        told=told,
        settings=ledger_tables.read(spark, out, "group_settings", fresh.known),
        waits=Waits(*(rows(name) for name in Waits._fields)),
        offsets=fresh.offsets,
        spans=fresh.spans,
        faults=ledger_tables.read(spark, out, "faults", fresh.known),
        known=fresh.known,
        judged=judged,
        whole_log=first.log_from == 0,
        first_ms=first.log_first_ms,
        fresh_from=fresh.epoch.log_from,
    )


def _rows_before(ledger: Ledger, sources: Sequence[Epoch]) -> list[dict[str, Any] | None]:
    """The last record before each source that is not in a source itself: it may be the copy that
    the source's first record belongs to."""
    numbers = {one.number for one in sources}
    return [
        before.last_row
        for before, one in zip(ledger.epochs, ledger.epochs[1:], strict=False)
        if one.number in numbers and before.number not in numbers
    ]
