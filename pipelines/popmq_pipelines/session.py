"""A Spark session: local by default, any master by one variable."""

import os
import shutil

from pyspark.sql import SparkSession

MASTER = "POPMQ_SPARK_MASTER"


class JavaMissing(Exception):
    """Spark needs Java 17: apt-get install openjdk-17-jre-headless."""


def session(app: str) -> SparkSession:
    """Raises `JavaMissing`."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise JavaMissing(JavaMissing.__doc__)
    return (
        SparkSession.builder.master(os.environ.get(MASTER, "local[*]"))
        .appName(app)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
