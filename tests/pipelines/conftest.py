"""One Spark for all tests of the audit: two threads, two partitions, UTC."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.audit import Bench
from harness.log_writer import LogWriter
from pyspark.sql import SparkSession

from popmq_pipelines.tables import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with warnings.catch_warnings():
        # Spark's launcher leaves the pipe to its Java process to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        started = session.start(
            "tests",
            {session.MASTER: "local[2]"},
            driver_memory="2g",  # it remembers something of each of some thousand plans
            shuffle_partitions=2,
            settings={**session.QUICK_JAVA, **session.NO_CODE, session.LITTLE: "0"},
        )
    yield started
    started.stop()


@pytest.fixture
def few_rows(spark: SparkSession) -> Iterator[None]:
    """Inside, few rows are judged in one task, as users have it; else tests have them spread."""
    spark.conf.set(session.LITTLE, str(session.LITTLE_ROWS))
    yield
    spark.conf.set(session.LITTLE, "0")


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path, LogWriter(tmp_path / "data"))
