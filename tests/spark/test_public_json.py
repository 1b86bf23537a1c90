"""Events of GitHub through a topic into a table: values, and what does not fit, as plain Python has them.

The payloads are those of real webhooks, which users of GitHub contributed to the package
`@octokit/webhooks-examples` (MIT): nested objects of a hundred kinds, fields that are missing, null or of another type.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.load_run import LoadRun
from highwater.spark.tables import open_table
from tests.conformance.topics import make_topic, unique_name
from tests.spark.test_report_job import send
from tests.support.cluster import Cluster
from tests.support.npm import installed
from tests.support.spark_loads import request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.clients]

REPOSITORY = ("id", "full_name", "private", "topics")
SCHEMA = """
    action string,
    number bigint,
    sender struct<login: string, id: bigint, site_admin: boolean>,
    repository struct<id: bigint, full_name: string, private: boolean, topics: array<string>{}>
"""


def payloads() -> list[dict[str, Any]]:
    """All examples of all events."""
    package = installed("webhooks") / "node_modules" / "@octokit" / "webhooks-examples"
    events = json.loads((package / "api.github.com" / "index.json").read_text(encoding="utf-8"))
    return [example for event in events for example in event["examples"]]


def is_number(payload: dict[str, Any]) -> bool:
    """A push tells when its repository was made as a number, most other events as text."""
    made = (payload.get("repository") or {}).get("created_at")
    return made is None or isinstance(made, int)


def wanted(payload: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """The fields of the schema, None where there is none."""

    def part(value: Any, names: tuple[str, ...]) -> dict[str, Any] | None:
        return None if value is None else {name: value.get(name) for name in names}

    return {
        "action": payload.get("action"),
        "number": payload.get("number"),
        "sender": part(payload.get("sender"), ("login", "id", "site_admin")),
        "repository": part(payload.get("repository"), fields),
    }


@pytest.mark.parametrize(
    ("schema", "fields", "accepts"),
    [
        (SCHEMA.format(""), REPOSITORY, lambda _: True),
        pytest.param(
            SCHEMA.format(", created_at: bigint"),
            (*REPOSITORY, "created_at"),
            is_number,
            marks=pytest.mark.full,
        ),
    ],
    ids=["all fit", "only pushes fit"],
)
def test_events_of_github(
    cluster: Cluster,
    spark: SparkSession,
    tmp_path: Path,
    schema: str,
    fields: tuple[str, ...],
    accepts: Callable[[dict[str, Any]], bool],
) -> None:
    examples = payloads()
    assert len(examples) > 200
    topic = make_topic(cluster.bootstrap, unique_name("github"))
    send(cluster, topic, [json.dumps(each).encode() for each in examples])
    loading = request(
        cluster.bootstrap, tmp_path / "table", topic, value_format="json", schema=schema
    )
    result = LoadRun(spark, loading, lambda _: None).run()
    good = {n: wanted(each, fields) for n, each in enumerate(examples) if accepts(each)}
    bad = {n: each for n, each in enumerate(examples) if not accepts(each)}
    assert good
    assert (result.records, result.bad) == (len(examples), len(bad))
    rows = open_table(spark, "delta", loading.table).read().select("offset", "value").collect()
    assert {row["offset"]: row["value"].asDict(recursive=True) for row in rows} == good
    assert len(rows) == len(good)
    quarantine = open_table(spark, "delta", loading.quarantine_path).read()
    left = {row["offset"]: json.loads(bytes(row["value"])) for row in quarantine.collect()}
    assert left == bad
