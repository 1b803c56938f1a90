"""Audit the snapshots of a folder as they arrive: `backfill` as a streaming query of Spark.

The source is Spark's own for files: it lists the manifests, which are put in place last, and its
checkpoint has those that it has seen. A micro-batch says that something has arrived. What is to be
audited, and in which order, the ledger says alone: a batch that is repeated after a crash judges
nothing twice, and the tables are those that `backfill` writes, byte for byte.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from popmq_pipelines.snapshot.manifest import MANIFEST

CHECKPOINT: Final = "stream"
"""Its folder in the audit's directory."""


def begin(
    spark: SparkSession,
    snapshots: Path,
    out: Path,
    audit: Callable[[], None],
    *,
    every_s: float | None,
) -> StreamingQuery:
    """`audit` is called for each micro-batch, in a thread of Spark's; what it raises ends the query
    with an error. `every_s`: how often Spark looks for snapshots; None: once, for what is there,
    and then the query ends."""

    def batch(_manifests: DataFrame, _number: int) -> None:
        audit()

    arriving = spark.readStream.text(f"{snapshots.resolve()}/*/{MANIFEST}", wholetext=True)
    writer = arriving.writeStream.foreachBatch(batch).queryName("popmq-audit")
    writer = writer.option("checkpointLocation", str((out / CHECKPOINT).resolve()))
    if every_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_s} seconds").start()
