"""The connector's options."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.topic import TopicSource, read_options


def test_the_whole_topic_and_nothing_may_be_missing() -> None:
    options = read_options(TopicSource(bootstrap="b:1", topic="t"))
    assert options["kafka.bootstrap.servers"] == "b:1"
    assert options["subscribe"] == "t"
    assert (options["startingOffsets"], options["endingOffsets"]) == ("earliest", "latest")
    assert options["failOnDataLoss"] == "true"
    assert options["includeHeaders"] == "false"


@pytest.mark.parametrize(
    ("committed", "level"), [(True, "read_committed"), (False, "read_uncommitted")]
)
def test_of_transactions_what_was_committed_unless_said(committed: bool, level: str) -> None:
    source = TopicSource(bootstrap="b:1", topic="t", read_committed=committed)
    assert read_options(source)["kafka.isolation.level"] == level
    assert TopicSource(bootstrap="b:1", topic="t").read_committed


def test_options_of_the_client_win_but_where_they_would_change_what_is_read() -> None:
    given = {"kafka.request.timeout.ms": "7", "kafka.bootstrap.servers": "c:1"}
    options = read_options(TopicSource(bootstrap="b:1", topic="t", kafka=given))
    assert options["kafka.request.timeout.ms"] == "7"
    assert options["kafka.bootstrap.servers"] == "b:1"


def test_headers_are_fetched_on_access() -> None:
    options = read_options(TopicSource(bootstrap="b:1", topic="t", headers={"a": "b"}))
    assert options["includeHeaders"] == "true"


def test_every_wait_has_a_limit() -> None:
    options = read_options(TopicSource(bootstrap="b:1", topic="t"))
    for name in (
        "kafkaConsumer.pollTimeoutMs",
        "kafka.request.timeout.ms",
        "kafka.default.api.timeout.ms",
    ):
        assert 0 < int(options[name]) <= 60_000
