"""The Spark session: local by default, any master by one variable."""

import os
import shutil
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

MASTER: Final = "POPMQ_SPARK_MASTER"
LOCAL: Final = "local[*]"
SHUFFLE_PARTITIONS: Final = 8  # a broker's log of a day; Spark joins small ones by itself


class JavaMissing(Exception):
    """Spark needs Java 17 or newer: apt-get install openjdk-17-jre-headless"""


def start(
    app: str, environ: Mapping[str, str], *, shuffle_partitions: int = SHUFFLE_PARTITIONS
) -> SparkSession:
    """Raises `JavaMissing`."""
    if shutil.which("java") is None and not _java_home(environ):
        raise JavaMissing(JavaMissing.__doc__)
    master = environ.get(MASTER, LOCAL)
    builder = (
        SparkSession.builder.master(master)
        .appName(app)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.shuffle.partitions", str(shuffle_partitions))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    if master.startswith("local"):  # else the machine's name would have to resolve
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _java_home(environ: Mapping[str, str]) -> bool:
    home = environ.get("JAVA_HOME")
    return bool(home) and os.access(os.path.join(home or "", "bin", "java"), os.X_OK)
