"""The brokers' answers through a fake of Java's client, and its errors as ours."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JJavaError

from highwater.spark.brokers import (
    Brokers,
    BrokersAway,
    BrokersRefuse,
    PatternUnusable,
    TopicMissing,
    TopicPartition,
    TopicState,
)


class Failing:
    """A future that fails as Java's do: the cause is inside."""

    def __init__(self, name: str, why: str = "why") -> None:
        inner = SimpleNamespace(
            getCause=lambda: None,
            getMessage=lambda: why,
            getClass=lambda: SimpleNamespace(getSimpleName=lambda: name),
        )
        self.cause = SimpleNamespace(getCause=lambda: inner)

    def get(self) -> None:
        error = Py4JJavaError.__new__(Py4JJavaError)
        Exception.__init__(error)
        error.java_exception = self.cause
        raise error


def done(value: Any) -> Any:
    return SimpleNamespace(get=lambda: value)


class Settings(dict[Any, Any]):
    put = dict.__setitem__


class Collected(list[Any]):
    add = list.append


def config(name: str, value: str | None, source: str) -> Any:
    return SimpleNamespace(name=lambda: name, value=lambda: value, source=lambda: source)


class SimpleKey:
    """A partition as Java has it."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = lambda: topic
        self.partition = lambda: partition


def described(partitions: int) -> Any:
    return SimpleNamespace(
        topicId=lambda: "id", partitions=lambda: SimpleNamespace(size=lambda: partitions)
    )


def resource(kind: str, name: str) -> Any:
    return (kind, name)


resource.Type = SimpleNamespace(TOPIC="topic")


class Admin:
    names: Any = done({"a", "b1", "b2"})
    offsets: Any = None

    def listTopics(self) -> Any:
        return SimpleNamespace(names=lambda: self.names)

    def describeTopics(self, names: list[str]) -> Any:
        topics = {name: described(len(name)) for name in names}
        return SimpleNamespace(allTopicNames=lambda: done(topics))

    def listOffsets(self, asked: dict[Any, Any], options: Any) -> Any:
        found = {key: SimpleNamespace(offset=lambda key=key: key[1] - 1) for key in asked}
        return SimpleNamespace(all=lambda: self.offsets or done(found))

    def describeCluster(self) -> Any:
        return SimpleNamespace(clusterId=lambda: done("cluster"))

    def describeConfigs(self, resources: list[Any]) -> Any:
        entries = [
            config("retention.ms", "7", "DYNAMIC_TOPIC_CONFIG"),
            config("segment.ms", "8", "DEFAULT_CONFIG"),
            config("secret", None, "DYNAMIC_TOPIC_CONFIG"),
        ]
        found = {each: SimpleNamespace(entries=lambda: entries) for each in resources}
        return SimpleNamespace(all=lambda: done(found))

    def listConsumerGroupOffsets(self, group: str) -> Any:
        key = SimpleKey("t", 3)
        found = {key: SimpleNamespace(offset=lambda: 9), SimpleKey("t", 4): None}
        return SimpleNamespace(partitionsToOffsetAndMetadata=lambda: done(found))

    def close(self) -> None:
        self.names = Failing("IllegalStateException")


@pytest.fixture
def admin() -> Admin:
    return Admin()


@pytest.fixture
def brokers(admin: Admin) -> Brokers:
    spec = SimpleNamespace(
        earliest=lambda: "e", latest=lambda: "l", forTimestamp=lambda time: ("t", time)
    )
    clients = SimpleNamespace(
        AdminClient=SimpleNamespace(create=lambda settings: admin),
        OffsetSpec=spec,
        ListOffsetsOptions=lambda level: level,
    )
    common = SimpleNamespace(
        IsolationLevel=SimpleNamespace(READ_COMMITTED=1, READ_UNCOMMITTED=0),
        TopicPartition=lambda topic, partition: (topic, partition),
        config=SimpleNamespace(ConfigResource=resource),
    )
    kafka = SimpleNamespace(clients=SimpleNamespace(admin=clients), common=common)
    jvm = SimpleNamespace(
        java=SimpleNamespace(
            util=SimpleNamespace(Properties=Settings, HashMap=Settings, ArrayList=Collected)
        ),
        org=SimpleNamespace(apache=SimpleNamespace(kafka=kafka)),
    )
    return Brokers(SimpleNamespace(sparkContext=SimpleNamespace(_jvm=jvm)), "h:1")


def test_topics_by_name_and_pattern(brokers: Brokers) -> None:
    assert brokers.topics(["a"], "b.") == {
        "a": TopicState("id", 1),
        "b1": TopicState("id", 2),
        "b2": TopicState("id", 2),
    }
    assert set(brokers.topics(["b1"], "b1|a")) == {"a", "b1"}
    assert set(brokers.existing(["a", "c"])) == {"a"}


def test_missing_topics(brokers: Brokers) -> None:
    with pytest.raises(TopicMissing, match="no topic c, d at h:1"):
        brokers.topics(["a", "d", "c"])
    with pytest.raises(TopicMissing, match="'b'"):
        brokers.topics([], "b")


def test_a_time_without_a_record(brokers: Brokers) -> None:
    partitions = [TopicPartition("a", 0), TopicPartition("a", 4)]
    assert brokers.at_time(partitions, 7) == {partitions[1]: 3}
    assert brokers.latest(partitions) == {partitions[0]: -1, partitions[1]: 3}


def test_what_surrounds_topics(brokers: Brokers) -> None:
    assert brokers.names() == {"a", "b1", "b2"}
    assert brokers.cluster_id() == "cluster"
    assert brokers.topic_configs(["b", "a", "a"]) == {
        "a": {"retention.ms": "7"},
        "b": {"retention.ms": "7"},
    }
    assert brokers.group_offsets("g") == {TopicPartition("t", 3): 9}


def test_it_is_closed(brokers: Brokers) -> None:
    with brokers:
        pass
    with pytest.raises(BrokersAway):
        brokers.names()


def test_errors_are_ours(brokers: Brokers, admin: Admin) -> None:
    admin.names = Failing("TimeoutException")
    with pytest.raises(BrokersAway, match="h:1 does not answer: TimeoutException: why"):
        brokers.topics(["a"])
    admin.offsets = Failing("UnknownTopicOrPartitionException")
    with pytest.raises(TopicMissing, match="deleted"):
        brokers.earliest([TopicPartition("a", 0)])


@pytest.mark.parametrize(
    "name",
    [
        "SaslAuthenticationException",
        "SslAuthenticationException",
        "TopicAuthorizationException",
        "ClusterAuthorizationException",
        "InvalidTopicException",
        "UnsupportedSaslMechanismException",
        "ConfigException",
        "LoginException",
    ],
)
def test_what_somebody_has_to_change_is_no_silence(
    brokers: Brokers, admin: Admin, name: str
) -> None:
    admin.names = Failing(name)
    with pytest.raises(BrokersRefuse, match=f"h:1 is refused: {name}: why"):
        brokers.topics(["a"])


def test_a_name_that_does_not_resolve_now_may_later(brokers: Brokers, admin: Admin) -> None:
    admin.names = Failing(
        "ConfigException", "No resolvable bootstrap urls given in bootstrap.servers"
    )
    with pytest.raises(BrokersAway):
        brokers.topics(["a"])


def test_a_pattern_that_is_none(brokers: Brokers) -> None:
    with pytest.raises(PatternUnusable, match=r"--pattern 'a\(' is no regular expression"):
        brokers.topics([], "a(")


def test_topics_that_are_not_what_they_were(brokers: Brokers) -> None:
    known = {"a": TopicState("id", 1), "b1": TopicState("old", 2), "c": TopicState("id", 1)}
    assert brokers.changed(known) == ["b1", "c"]
