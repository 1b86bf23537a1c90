"""Copies that are made, grown and refused; tests/spark asks a real cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="needs the spark extra")

from confluent_kafka import KafkaError, KafkaException

from highwater.spark.mirror import target as module
from highwater.spark.mirror.clients import CopyRefused
from highwater.spark.mirror.target import (
    TargetCluster,
    TargetTopic,
    batch_bytes,
    copied_configs,
)
from highwater.spark.topic_admin import ClusterAway


class Future:
    def __init__(self, value: Any = None, code: int | None = None) -> None:
        self._value, self._code = value, code

    def result(self, timeout: float) -> Any:
        if self._code is not None:
            raise KafkaException(KafkaError(self._code))
        return self._value


class FakeAdmin:
    """Topics appear in descriptions with the second look."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {"old": 2}
        self.hidden: list[str] = []
        self.created: list[Any] = []
        self.code: int | None = None
        self.ends = 0

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(cluster_id="C", topics=dict(self.topics))

    def describe_topics(self, topics: Any, request_timeout: float) -> dict[str, Future]:
        return {name: self._described(name) for name in self.names}

    def _described(self, name: str) -> Future:
        if name in self.hidden:
            self.hidden.remove(name)
            return Future(code=KafkaError.UNKNOWN_TOPIC_OR_PART)
        if name not in self.topics:
            return Future(code=KafkaError.UNKNOWN_TOPIC_OR_PART)
        partitions = [SimpleNamespace(leader="node") for _ in range(self.topics[name])]
        if name == "headless":
            partitions[0].leader = None
        return Future(SimpleNamespace(topic_id=f"id of {name}", partitions=partitions))

    def create_topics(self, topics: list[Any], request_timeout: float) -> dict[str, Future]:
        (new,) = topics
        if self.code is not None:
            return {new.topic: Future(code=self.code)}
        if new.topic in self.topics:
            return {new.topic: Future(code=KafkaError.TOPIC_ALREADY_EXISTS)}
        self.created.append(new)
        self.topics[new.topic] = new.num_partitions
        self.hidden.append(new.topic)
        return {new.topic: Future()}

    def create_partitions(self, new: list[Any], request_timeout: float) -> dict[str, Future]:
        self.topics[new[0].topic] = new[0].new_total_count
        return {new[0].topic: Future(code=self.code)}

    def describe_configs(self, resources: list[Any], request_timeout: float) -> dict[Any, Future]:
        entries = {
            "max.message.bytes": SimpleNamespace(value="9"),
            "secret": SimpleNamespace(value=None),
        }
        return {each: Future(entries) for each in resources}

    def list_offsets(self, places: dict[Any, Any], request_timeout: float) -> dict[Any, Future]:
        return {each: Future(SimpleNamespace(offset=self.ends)) for each in places}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    made = FakeAdmin()

    def collection(names: list[str]) -> list[str]:
        made.names = names
        return names

    monkeypatch.setattr(module, "TopicCollection", collection)
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    return made


@pytest.fixture
def target(admin: FakeAdmin) -> TargetCluster:
    return TargetCluster(SimpleNamespace(bootstrap="h:1", admin=lambda: admin))


def test_what_is_there(target: TargetCluster, admin: FakeAdmin):
    admin.topics["headless"] = 1
    assert target.cluster_id() == "C"
    assert target.names() == {"old", "headless"}
    assert target.topics(["old", "none", "headless"]) == {
        "old": TargetTopic(topic_id="id of old", partitions=2)
    }
    assert target.topics([]) == {}
    assert target.configs(["old"]) == {"old": {"max.message.bytes": "9"}}
    assert target.configs([]) == {}
    assert not target.has_records("old", 2)
    admin.ends = 1
    assert target.has_records("old", 2)


def test_a_copy_is_made_once(target: TargetCluster, admin: FakeAdmin):
    assert target.create("new", partitions=3, configs={"retention.ms": "1"})
    (made,) = admin.created
    assert (made.topic, made.num_partitions, made.config) == ("new", 3, {"retention.ms": "1"})
    assert admin.hidden == []
    assert not target.create("new", partitions=3, configs={})


def test_a_copy_grows(target: TargetCluster, admin: FakeAdmin):
    target.grow("old", 5)
    assert target.topics(["old"])["old"].partitions == 5


def test_errors_are_ours(target: TargetCluster, admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch):
    admin.code = KafkaError.INVALID_CONFIG
    with pytest.raises(CopyRefused, match="topic new at h:1"):
        target.create("new", partitions=1, configs={"x": "y"})
    admin.code = KafkaError._TRANSPORT
    with pytest.raises(ClusterAway, match="topic old at h:1"):
        target.grow("old", 5)
    admin.code = None
    monkeypatch.setattr(module, "TIMEOUT_S", 0.05)
    admin.topics["headless"] = 1
    with pytest.raises(ClusterAway, match="topic headless at h:1 has no leaders yet"):
        target.grow("headless", 1)


def test_configs_that_matter():
    assert copied_configs({"retention.ms": "1", "min.insync.replicas": "2"}) == {
        "retention.ms": "1"
    }


def test_batches_fit_into_the_topic():
    assert batch_bytes("t", {"max.message.bytes": "2000"}) == 2000
    assert batch_bytes("t", {"max.message.bytes": "20000000"}) == module.BATCH_BYTES_MAX
    assert batch_bytes("t", {}) == module.BATCH_BYTES_MAX


def test_a_topic_that_sets_timestamps_is_no_copy():
    with pytest.raises(CopyRefused, match=r"t has message\.timestamp\.type=LogAppendTime"):
        batch_bytes("t", {"message.timestamp.type": "LogAppendTime"})
