"""The Spark session: local by default, any master by one variable."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from pyspark.sql import SparkSession

from popmq_pipelines.frames.partitioning import PARTITIONS

MASTER: Final = "POPMQ_SPARK_MASTER"
LOCAL: Final = "local[*]"
SHUFFLE_PARTITIONS: Final = 8  # Spark joins small ones by itself
ROWS_PER_PARTITION: Final = 500_000
"""What a task sorts and hashes in the memory that it has by default."""

LITTLE_ROWS: Final = 200_000
"""So many a task sorts in a moment: spreading them over tasks takes longer than the work itself."""
LITTLE: Final = "spark.popmq.littleRows"
"""Spark's name for another bound. 0: rows are always spread."""

_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK_JAVA: Final[Mapping[str, str]] = {
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
}
"""For a Java that lives for a minute: compiling well takes longer than it gains."""
NO_CODE: Final[Mapping[str, str]] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""The same of the code that Spark makes for each plan."""
_ONE_TASK: Final[Mapping[str, str]] = {
    **NO_CODE,
    PARTITIONS: "1",
    "spark.sql.adaptive.enabled": "false",
    # Rows that lie in one place need not be sent to all places first.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.maxSinglePartitionBytes": str((1 << 63) - 1),
}
"""A job is one task, not a job for each shuffle and each broadcast."""
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"
"""spark-submit sets it for the program that it runs, whose Spark it has configured."""
_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # What lies together by a message's place does so by its lease too: no second shuffle.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class JavaMissing(Exception):
    """Spark needs Java 17 or newer: apt-get install openjdk-17-jre-headless"""


def start(
    app: str,
    environ: Mapping[str, str],
    *,
    master: str | None = None,
    driver_memory: str | None = None,
    row_count: int | None = None,
    shuffle_partitions: int = SHUFFLE_PARTITIONS,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """`master`: else POPMQ_SPARK_MASTER, else what spark-submit was told, else this machine.
    `driver_memory` as Spark writes it, for one that is started here; `row_count`: about how many it
    will be for, None: nobody knows; `settings`: more of Spark's own. Raises `JavaMissing`."""
    if shutil.which("java") is None and not _java_home(environ):
        raise JavaMissing(JavaMissing.__doc__)
    builder: SparkSession.Builder = SparkSession.builder.appName(app)
    chosen = master or environ.get(MASTER)
    if chosen is None and _SUBMITTED not in environ:
        chosen = LOCAL
    if chosen is not None:
        builder = builder.master(chosen)
    if driver_memory is not None:
        builder = builder.config("spark.driver.memory", driver_memory)
    if chosen is not None and chosen.startswith("local"):
        # What Spark starts is this Python, not the first one in PATH; it looks here alone.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # else the machine's name must resolve
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
    parts = {PARTITIONS: str(shuffle_partitions)}
    is_quick = row_count is not None and row_count <= LITTLE_ROWS and _SUBMITTED not in environ
    java = QUICK_JAVA if is_quick else {}
    for name, value in {**_SETTINGS, **parts, **java, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def fitted(spark: SparkSession, row_count: int) -> Iterator[None]:
    """Inside, Spark works in as many parts as this many rows need."""
    settings: Mapping[str, str] = {}
    if row_count <= int(spark.conf.get(LITTLE, str(LITTLE_ROWS)) or 0):
        settings = _ONE_TASK
    elif row_count // ROWS_PER_PARTITION > int(spark.conf.get(PARTITIONS) or SHUFFLE_PARTITIONS):
        settings = {PARTITIONS: str(row_count // ROWS_PER_PARTITION)}
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, known in before.items():
            spark.conf.set(name, str(known))


def _java_home(environ: Mapping[str, str]) -> bool:
    home = environ.get("JAVA_HOME")
    return bool(home) and os.access(os.path.join(home or "", "bin", "java"), os.X_OK)
