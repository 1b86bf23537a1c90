"""Spark for tests: its jars fetched, one local session for the test run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.cluster import Cluster
from tests.support.maven import REPOSITORY
from tests.support.sample_topic import send_sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HERE = Path(__file__).parent
_TIMEOUT_S = 300  # Java starts and compiles; on a busy machine a job takes half a minute.
_MAVEN_TIMEOUT_S = 660


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Time for what runs Spark, and Spark's and the clients' own warnings to themselves."""
    for item in items:
        if _HERE in item.path.parents and item.get_closest_marker("spark") is not None:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_TIMEOUT_S))
            # PySpark leaves its sockets to the garbage collector.
            item.add_marker(
                pytest.mark.filterwarnings("default", "ignore:unclosed <socket:ResourceWarning")
            )
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def connector() -> Path:
    """The directory with the connector's jars, fetched if need be."""
    subprocess.run(
        ["sh", str(REPOSITORY / "tools" / "setup" / "spark_jars.sh")],
        check=True,
        timeout=_MAVEN_TIMEOUT_S,
    )
    return REPOSITORY / ".cache" / "spark-jars"


@pytest.fixture(scope="session")
def spark(connector: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from highwater.spark.session import open_session

    scratch = tmp_path_factory.mktemp("spark")
    session = open_session(
        "tests",
        jars_directory=connector,
        settings={
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def sample_topic(cluster: Cluster) -> str:
    """A topic with the sample log, each record with its line's time, keyed by client."""
    return send_sample(cluster.bootstrap)
