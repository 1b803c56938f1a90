"""The Spark session: local by default, any master by one variable."""

import os
import shutil
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pyspark.sql import SparkSession

MASTER: Final = "POPMQ_SPARK_MASTER"
LOCAL: Final = "local[*]"
SHUFFLE_PARTITIONS: Final = 8  # Spark joins small ones by itself
ROWS_PER_PARTITION: Final = 500_000
"""What a task sorts and hashes in the memory that it has by default."""

FOR_LITTLE: Final[Mapping[str, str]] = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For a few thousand rows: compiling what runs for a moment takes longer than running it."""
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
    shuffle_partitions: int = SHUFFLE_PARTITIONS,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """`master`: else POPMQ_SPARK_MASTER, else what spark-submit was told, else this machine.
    `driver_memory` as Spark writes it, for one that is started here; `settings`: more of Spark's
    own. Raises `JavaMissing`."""
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
    parts = {"spark.sql.shuffle.partitions": str(shuffle_partitions)}
    for name, value in {**_SETTINGS, **parts, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def spread_over(spark: SparkSession, row_count: int) -> None:
    """Shuffles in as many parts as this many rows need."""
    wanted = row_count // ROWS_PER_PARTITION
    if wanted > int(spark.conf.get("spark.sql.shuffle.partitions") or SHUFFLE_PARTITIONS):
        spark.conf.set("spark.sql.shuffle.partitions", str(wanted))


def _java_home(environ: Mapping[str, str]) -> bool:
    home = environ.get("JAVA_HOME")
    return bool(home) and os.access(os.path.join(home or "", "bin", "java"), os.X_OK)
