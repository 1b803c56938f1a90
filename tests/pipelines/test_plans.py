"""How the audit is worked out: no Python on the way of the rows, and no task that gets a whole hot
queue."""

import re
from pathlib import Path

import pytest
from harness.audit_histories import World
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from popmq_pipelines.audit import leases
from popmq_pipelines.frames import queues
from popmq_pipelines.frames.clock import went_back
from popmq_pipelines.frames.queues import BUCKET, BUCKET_BITS, PLACE
from popmq_pipelines.tables import opened_snapshot

pytestmark = [pytest.mark.pipelines, pytest.mark.timeout(600)]

PACKAGE = Path(queues.__file__).parents[1]
PARTS = 8
ROWS = 400_000


def plan(frame: DataFrame) -> str:
    executed = frame._jdf.queryExecution()
    return str(executed.toString())


def test_no_step_of_a_plan_is_python(spark: SparkSession, tmp_path: Path) -> None:
    world = World(3, 3)
    world.live(60)
    world.log.cut(tmp_path / "s1")
    tables = opened_snapshot.read_tables(spark, opened_snapshot.open_snapshot(tmp_path / "s1"))
    index = tables["commitlog_index"]
    messages = queues.queued(index).withColumn("epoch", F.lit(1))
    frames = [
        queues.runs(messages),
        leases.leases(tables["pop_checkpoints"]),
        leases.ends(tables["pop_acks"], leases.copies(index)),
        went_back(index, known_ms=0, watermark=0),
    ]
    for frame in frames:
        told = plan(frame)
        assert "HashAggregate" in told  # it is a plan that is looked at
        assert not re.search(r"Python|ArrowEval|MapInPandas", told)


def test_no_file_names_what_would_run_python_or_fetch_rows() -> None:
    """`take` is the only way out of Spark, and it has a bound."""
    steps = {*(PACKAGE / "audit").glob("*.py"), *(PACKAGE / "frames").glob("*.py")}
    steps.remove(PACKAGE / "audit/filters.py")  # it runs the broker's own filters
    assert len(steps) > 15  # the rooms are there
    for file in steps:
        said = file.read_text()
        assert not re.search(r"udf|mapIn|applyIn|\.rdd|toPandas|\.collect\(", said), file
    for file in PACKAGE.rglob("*.py"):
        assert not re.search(r"\.collect\(|toPandas|toLocalIterator", file.read_text()), file


def hot(spark: SparkSession) -> DataFrame:
    """Nine rows of ten are of one queue."""
    number = F.col("id")
    is_hot = number % 10 < 9
    return spark.range(ROWS).select(
        F.lit("orders").alias("topic"),
        F.when(is_hot, F.lit(0)).otherwise((1 + number % 7).cast("int")).alias("queue_id"),
        number.alias("queue_offset"),
        number.alias("log_offset"),
        F.lit(1).alias("epoch"),
    )


def test_a_hot_queue_is_shared_out(spark: SparkSession) -> None:
    """Where leases, acks and messages meet, no part has more than its share and a quarter."""
    parts = hot(spark).repartition(PARTS, *PLACE).groupBy(F.spark_partition_id()).count().collect()
    sizes = [int(row["count"]) for row in parts]
    assert len(sizes) == PARTS
    assert max(sizes) < 1.25 * ROWS / PARTS
    buckets = queues.runs(hot(spark)).where(F.col("queue_id") == 0).select(*BUCKET).count()
    assert buckets == (ROWS >> BUCKET_BITS) + 1
