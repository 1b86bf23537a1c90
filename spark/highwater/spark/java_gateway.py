"""PySpark's own gateway to its Java, which has no public names and no types."""

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
