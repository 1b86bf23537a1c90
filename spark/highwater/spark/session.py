"""A small Spark session that reads topics and writes Delta and Iceberg tables, on this machine alone.

Jobs run in two ways. Started by `highwater-spark`, they get a local session with the jars of
`connector_jars`. Under `spark-submit` its command line sets master, memory and jars, and only
settings that the jobs rely on are set here.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from highwater.model.errors import UsageError
from highwater.spark.java_gateway import mute_lost_calls

JARS_VARIABLE: Final = "HIGHWATER_SPARK_JARS"
"""Environment variable with the directory of the connector's jars."""

JARS_DIRECTORY: Final = Path(".cache") / "spark-jars"
"""The directory below the repository where `tools/setup/spark_jars.sh` puts them."""

_REPOSITORY: Final = Path(__file__).resolve().parents[3]
_CONNECTOR: Final = "spark-sql-kafka-0-10_"
_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # Set by spark-submit for the Python it starts.
_LOOPBACK: Final = "127.0.0.1"

_EVERYWHERE: Final[Mapping[str, str]] = {
    # Times and hours are computed in the same zone on every machine.
    "spark.sql.session.timeZone": "UTC",
    # Both formats plan and commit their writes by extensions of the session.
    "spark.sql.extensions": (
        "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    ),
    # Delta tables are named by their path in Spark's own catalog.
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}

_LOCAL: Final[Mapping[str, str]] = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    # An address, since the machine's own name may not resolve.
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The default of 200 suits clusters; here shuffled results have a few hundred rows.
    "spark.sql.shuffle.partitions": "4",
    # Delta reads its log by as many tasks, by default 50: each costs more than the log of a small table.
    "spark.databricks.delta.snapshotPartitions": "2",
}


class ConnectorMissing(UsageError):
    """The jars of Spark's Kafka connector, or Java itself, are not there."""

    reason = "SPARK_CONNECTOR_MISSING"


def connector_jars(directory: Path | None = None) -> tuple[Path, ...]:
    """Returns the connector's jars, sorted. Raises ConnectorMissing.

    Looks in `directory` if given, else in the directory that HIGHWATER_SPARK_JARS names, else in
    `.cache/spark-jars` of the repository.
    """
    named = os.environ.get(JARS_VARIABLE)
    place = directory or (Path(named) if named else _REPOSITORY / JARS_DIRECTORY)
    jars = tuple(sorted(place.glob("*.jar")))
    if not any(jar.name.startswith(_CONNECTOR) for jar in jars):
        raise ConnectorMissing(
            f"no jars of Spark's Kafka connector in {place}: run tools/setup/spark_jars.sh, "
            f"or name their directory in {JARS_VARIABLE}"
        )
    return jars


def settings_for(jars: tuple[Path, ...] | None) -> dict[str, str]:
    """Returns the session's settings: for a local one with `jars`; None means spark-submit."""
    if jars is None:
        return dict(_EVERYWHERE)
    return {
        **_EVERYWHERE,
        **_LOCAL,
        "spark.jars": ",".join(str(jar) for jar in jars),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
    }


def open_session(
    name: str,
    *,
    jars_directory: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Starts a session called `name`, or returns the running one; the caller stops it.

    `settings` win over our own. Raises ConnectorMissing if a local session lacks the jars or Java.
    """
    submitted = _SUBMITTED in os.environ
    if not submitted and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise ConnectorMissing("Spark needs Java: apt-get install openjdk-17-jre-headless")
    jars = None if submitted else connector_jars(jars_directory)
    if not submitted:
        # Otherwise Spark looks up the machine's name and may warn about it.
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        # Workers run this Python, which has our packages; PySpark's default is the path's python3.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    mute_lost_calls()
    builder = SparkSession.builder.appName(name)
    for key, value in {**settings_for(jars), **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def is_over(spark: SparkSession) -> bool:
    """Whether the session can do nothing more: its context was stopped, or its Java has died."""
    try:
        context: Any = spark.sparkContext._jsc  # noqa: SLF001 # There is no public name.
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):
        # Nobody answers, or listens, any more.
        return True
