"""PySpark's own gateway to its Java, which has no public names and no types."""

import logging
from pathlib import PurePath
from typing import Any

from pyspark.sql import SparkSession


def java(spark: SparkSession) -> Any:
    """Returns the root of Java's packages."""
    return spark.sparkContext._jvm  # noqa: SLF001 # There is no public name.


def hadoop_configuration(spark: SparkSession) -> Any:
    """Returns the settings of Hadoop's file systems."""
    return spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 # As above.


def java_session(spark: SparkSession) -> Any:
    """Returns the session as Java has it."""
    return spark._jsparkSession  # noqa: SLF001 # As above.


def empty_array(spark: SparkSession, kind: Any) -> Any:
    """Returns a Java array of a class, without elements."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 # As above.
    return gateway.new_array(kind, 0)


def mute_lost_calls() -> None:
    """Keeps Py4J from writing tracebacks when Java dies or the job is interrupted in a call.

    It also raises the error, and a job says that in a line. Py4J writes some of it by the root logger, which
    gets a handler by that, and then shows what comes from Py4J's own.
    """
    logging.getLogger("py4j").propagate = False
    logging.getLogger().addFilter(_is_of_others)


def _is_of_others(record: logging.LogRecord) -> bool:
    return record.levelno < logging.ERROR or PurePath(record.pathname).parent.name != "py4j"
