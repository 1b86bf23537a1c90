"""Errors of the admin client as ours; tests/spark asks real brokers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("confluent_kafka", reason="needs the spark extra")

from confluent_kafka import KafkaError, KafkaException

from highwater.spark import topic_admin as module
from highwater.spark.topic_admin import (
    COMPACTED,
    ClusterAway,
    ClusterRefuses,
    NoSuchTopic,
    TopicAdmin,
    TopicIdentity,
)

SILENT = -1
"""Not a code: the request is never answered."""


class Future:
    def __init__(self, value=None, code: int | None = None) -> None:
        self._value = value
        self._code = code

    def result(self, timeout_s):
        if self._code == SILENT:
            raise TimeoutError
        if self._code is not None:
            raise KafkaException(KafkaError(self._code))
        return self._value


class FakeClient:
    def __init__(self, settings) -> None:
        self.answer = Future(SimpleNamespace(topic_id="ID"))
        self.created: list = []

    def list_topics(self, timeout):
        return SimpleNamespace(cluster_id="C")

    def describe_topics(self, topics, request_timeout):
        return {"t": self.answer}

    def create_topics(self, topics, request_timeout):
        self.created += topics
        return {"t": self.answer}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> TopicAdmin:
    monkeypatch.setattr(module, "AdminClient", FakeClient)
    return TopicAdmin("b:1")


def test_settings_of_the_client(monkeypatch: pytest.MonkeyPatch):
    seen: list[dict[str, object]] = []
    monkeypatch.setattr(module, "AdminClient", seen.append)
    TopicAdmin("b:1", {"security.protocol": "SSL", "bootstrap.servers": "c:1"})
    assert (seen[0]["security.protocol"], seen[0]["bootstrap.servers"]) == ("SSL", "b:1")


def test_who_a_topic_is(admin: TopicAdmin):
    assert admin.identify("t") == TopicIdentity(cluster_id="C", topic="t", topic_id="ID")


def test_a_topic_that_is_missing(admin: TopicAdmin):
    admin._client.answer = Future(code=KafkaError.UNKNOWN_TOPIC_OR_PART)
    with pytest.raises(NoSuchTopic, match="there is no topic t at b:1"):
        admin.identify("t")


def test_a_cluster_that_does_not_answer(admin: TopicAdmin):
    admin._client.answer = Future(code=KafkaError._TRANSPORT)
    with pytest.raises(ClusterAway, match="the cluster at b:1, topic t: "):
        admin.identify("t")


def test_topics_are_made_once(admin: TopicAdmin):
    assert admin.ensure("t", partitions=3, configs=COMPACTED)
    (made,) = admin._client.created
    assert (made.topic, made.num_partitions, made.config) == ("t", 3, dict(COMPACTED))
    admin._client.answer = Future(code=KafkaError.TOPIC_ALREADY_EXISTS)
    assert not admin.ensure("t", partitions=3, configs=COMPACTED)


def test_a_topic_that_may_not_be_made(admin: TopicAdmin):
    admin._client.answer = Future(code=KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(ClusterRefuses):
        admin.ensure("t", partitions=1, configs={})


@pytest.mark.parametrize(
    "code", [KafkaError._AUTHENTICATION, KafkaError.TOPIC_EXCEPTION, KafkaError._INVALID_ARG]
)
def test_what_somebody_has_to_change(admin: TopicAdmin, code: int):
    admin._client.answer = Future(code=code)
    with pytest.raises(ClusterRefuses, match="the cluster at b:1, topic t: "):
        admin.identify("t")


def test_a_request_without_an_end(admin: TopicAdmin):
    admin._client.answer = Future(code=SILENT)
    for asked in (
        lambda: admin.identify("t"),
        lambda: admin.ensure("t", partitions=1, configs={}),
    ):
        with pytest.raises(ClusterAway, match="the cluster at b:1, topic t: no answer"):
            asked()


def test_the_client_gives_up_before_we_do():
    """Its error says why; the end of our patience says nothing."""
    assert module.ANSWER_S > module.TIMEOUT_S
