"""The topics of a stream through a fake of Java's client; tests/spark asks a real broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from py4j.protocol import Py4JJavaError

from highwater.spark.brokers import TopicMissing
from highwater.spark.stream_errors import RecordsGone
from highwater.spark.stream_topics import StreamTopics
from highwater.spark.topic_admin import TopicIdentity

WHO = TopicIdentity(cluster_id="c", topic="t", topic_id="i")


def topics(ids: dict[str, str]) -> tuple[StreamTopics, Any]:
    """Topics that are there, with their ids, and the client."""

    def done(value: Any) -> Any:
        return SimpleNamespace(get=lambda: value)

    def missing() -> None:
        inner = SimpleNamespace(
            getCause=lambda: None,
            getMessage=lambda: "This server does not host this topic-partition.",
            getClass=lambda: SimpleNamespace(
                getSimpleName=lambda: "UnknownTopicOrPartitionException"
            ),
        )
        error = Py4JJavaError.__new__(Py4JJavaError)
        Exception.__init__(error)
        error.java_exception = SimpleNamespace(getCause=lambda: inner)
        raise error

    def describe(names: list[str]) -> Any:
        if not ids.keys() >= set(names):
            return SimpleNamespace(allTopicNames=lambda: SimpleNamespace(get=missing))
        found = {name: MagicMock(topicId=lambda name=name: ids[name]) for name in names}
        return SimpleNamespace(allTopicNames=lambda: done(found))

    client = MagicMock()
    client.listTopics().names = lambda: done(set(ids))
    client.describeTopics = describe
    client.describeCluster().clusterId = lambda: done("c")
    spark = MagicMock()
    jvm = spark.sparkContext._jvm
    jvm.java.util.ArrayList = type("Collected", (list,), {"add": list.append})
    jvm.org.apache.kafka.clients.admin.AdminClient.create.return_value = client
    return StreamTopics(spark, "b:1", {"kafka.security.protocol": "SSL"}), spark


def test_who_a_topic_is():
    found, spark = topics({"t": "i"})
    assert found.identify("t") == WHO
    put = spark.sparkContext._jvm.java.util.Properties().put
    assert ("security.protocol", "SSL") in [call.args for call in put.mock_calls]
    with pytest.raises(TopicMissing, match="no topic u at b:1"):
        found.identify("u")


def test_a_topic_is_the_same_or_its_records_are_gone():
    topics({"t": "i"})[0].check(WHO)
    with pytest.raises(RecordsGone, match="t was deleted and made anew while it was read"):
        topics({"t": "j"})[0].check(WHO)
    with pytest.raises(RecordsGone, match="t was deleted while it was read"):
        topics({})[0].check(WHO)


def test_topics_are_made_if_they_are_missing():
    found, spark = topics({"t": "i"})
    client = spark.sparkContext._jvm.org.apache.kafka.clients.admin.AdminClient.create()
    assert not found.ensure("t", partitions=1, configs={})
    client.createTopics.assert_not_called()
    assert found.ensure("u", partitions=1, configs={"cleanup.policy": "compact"})
    client.createTopics.assert_called_once()
