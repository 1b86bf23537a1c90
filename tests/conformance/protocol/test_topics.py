"""Topics and configs: requests that no client's interface can send."""

from __future__ import annotations

from typing import Any

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestCreatePartitionsTopic,
)
from highwater.kafka.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableReplicaAssignment,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
)
from highwater.kafka.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestDeleteTopicState,
)
from highwater.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
)
from highwater.kafka.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from tests.conformance.client import CLIENT_TIMEOUT_S
from tests.conformance.protocol.requests import topic_id
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.wire import RawConnection, only

_TOPIC = 2
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_DYNAMIC_TOPIC_CONFIG, _DEFAULT_CONFIG = 1, 5
_TIMEOUT_MS = 15_000
_MISSING = 100  # Kafka's UNKNOWN_TOPIC_ID.
_INVALID = ErrorCode.INVALID_REQUEST


def _new(name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> Any:
    configs = [
        CreateTopicsRequestCreatableTopicConfig(name=key, value=value)
        for key, value in fields.pop("configs", {}).items()
    ]
    return CreateTopicsRequestCreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=configs,
        **fields,
    )


def _create(
    connection: RawConnection, *topics: Any, version: int = 7, validate_only: bool = False
) -> list[Any]:
    request = CreateTopicsRequest(
        topics=topics, timeout_ms=_TIMEOUT_MS, validate_only=validate_only
    )
    return list(connection.ask(request, version).topics)


@pytest.mark.core(version=7)
@pytest.mark.parametrize("version", range(2, 8))
def test_create_and_delete(connection: RawConnection, topic: str, version: int) -> None:
    made = only(_create(connection, _new(topic, 3), version=version))
    assert (made.name, made.error_code) == (topic, ErrorCode.NONE)
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (3, 1)
        assert {config.name for config in made.configs} >= {"retention.ms", "cleanup.policy"}
    if version >= 7:
        assert made.topic_id != bytes(16)
    again = only(_create(connection, _new(topic, 3), version=version))
    assert again.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    delete_version = version - 1
    if delete_version < 6:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=_TIMEOUT_MS)
    else:
        by_id = DeleteTopicsRequestDeleteTopicState(name=None, topic_id=made.topic_id)
        request = DeleteTopicsRequest(topics=[by_id], timeout_ms=_TIMEOUT_MS)
    deleted = only(connection.ask(request, delete_version).responses)
    assert (deleted.error_code, deleted.name) == (ErrorCode.NONE, topic)
    # The name is free again, and a new topic gets another id.
    wait_until(
        lambda: only(_create(connection, _new(topic))).error_code == ErrorCode.NONE,
        timeout_s=CLIENT_TIMEOUT_S,
        what="the name is free",
    )


def test_invalid_topics(cluster: Cluster, connection: RawConnection, topic: str) -> None:
    node = cluster.nodes[0].node_id
    assignment = CreateTopicsRequestCreatableReplicaAssignment
    wrong = {
        ErrorCode.INVALID_TOPIC_EXCEPTION: _new("no spaces"),
        ErrorCode.INVALID_PARTITIONS: _new(f"{topic}-a", 0),
        ErrorCode.INVALID_REPLICATION_FACTOR: _new(f"{topic}-b", 1, len(cluster.nodes) + 1),
        ErrorCode.INVALID_CONFIG: _new(f"{topic}-c", configs={"no.such.config": "1"}),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT: _new(
            f"{topic}-d", -1, -1, assignments=[assignment(broker_ids=[node, node])]
        ),
    }
    results = _create(connection, *wrong.values())
    codes = {result.name: result.error_code for result in results}
    assert codes == {new.name: code for code, new in wrong.items()}
    bad_value = only(_create(connection, _new(topic, configs={"retention.ms": "soon"})))
    assert bad_value.error_code == ErrorCode.INVALID_CONFIG
    twice = _create(connection, _new(topic), _new(topic))
    assert {result.error_code for result in twice} == {ErrorCode.INVALID_REQUEST}


def test_names_that_differ_only_in_dots(connection: RawConnection, topic: str) -> None:
    assert only(_create(connection, _new(f"{topic}.x"))).error_code == ErrorCode.NONE
    colliding = only(_create(connection, _new(f"{topic}_x")))
    assert colliding.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_validate_only_creates_nothing(connection: RawConnection, topic: str) -> None:
    for _ in range(2):
        result = only(_create(connection, _new(topic), validate_only=True))
        assert result.error_code == ErrorCode.NONE


def test_defaults_of_the_broker(connection: RawConnection, topic: str) -> None:
    made = only(_create(connection, _new(topic, -1, -1)))
    assert (made.error_code, made.num_partitions) == (ErrorCode.NONE, 1)


def test_a_given_assignment(cluster: Cluster, connection: RawConnection, topic: str) -> None:
    node = cluster.nodes[-1].node_id
    assignments = [
        CreateTopicsRequestCreatableReplicaAssignment(partition_index=index, broker_ids=[node])
        for index in range(2)
    ]
    made = only(_create(connection, _new(topic, -1, -1, assignments=assignments)))
    assert (made.error_code, made.num_partitions) == (ErrorCode.NONE, 2)


def test_deleting_unknown_topics(connection: RawConnection, topic: str) -> None:
    by_name = DeleteTopicsRequestDeleteTopicState(name=topic)
    by_id = DeleteTopicsRequestDeleteTopicState(name=None, topic_id=b"0123456789abcdef")
    request = DeleteTopicsRequest(topics=[by_name, by_id], timeout_ms=_TIMEOUT_MS)
    codes = sorted(result.error_code for result in connection.ask(request, 6).responses)
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _MISSING]


def test_deleting_a_topic_twice_in_one_request(connection: RawConnection, made_topic: str) -> None:
    """One answer for each name and id; the topic stays."""
    asked, unknown, none = topic_id(connection, made_topic), b"0123456789abcdef", bytes(16)
    named = [(made_topic, none)] * 2 + [("not-there", none)] * 3
    identified = [(None, unknown)] * 2
    told = [(made_topic, none), ("not-there", none), (None, unknown)]
    assert _deleted(connection, *named, *identified) == {(*one, _INVALID) for one in told}
    both = _deleted(connection, (made_topic, none), (None, asked))
    assert both == {(made_topic, asked, _INVALID)}
    contradictory = _deleted(connection, (made_topic, asked), (None, none))
    assert contradictory == {(made_topic, asked, _INVALID), (None, none, _INVALID)}
    assert topic_id(connection, made_topic) == asked


def _deleted(
    connection: RawConnection, *asked: tuple[str | None, bytes]
) -> set[tuple[str | None, bytes, int]]:
    """Kafka answers in any order."""
    topics = [DeleteTopicsRequestDeleteTopicState(*one) for one in asked]
    answer = connection.ask(DeleteTopicsRequest(topics=topics, timeout_ms=_TIMEOUT_MS), 6)
    told = [(one.name, bytes(one.topic_id), one.error_code) for one in answer.responses]
    assert len(set(told)) == len(told)
    return set(told)


@pytest.mark.core(version=3)
@pytest.mark.parametrize("version", range(4))
def test_more_partitions(connection: RawConnection, made_topic: str, version: int) -> None:
    def grow(
        name: str, count: int, *, validate_only: bool = False, assignments: list[Any] | None = None
    ) -> int:
        wanted = CreatePartitionsRequestCreatePartitionsTopic(
            name=name, count=count, assignments=assignments
        )
        request = CreatePartitionsRequest(
            topics=[wanted], timeout_ms=_TIMEOUT_MS, validate_only=validate_only
        )
        result = only(connection.ask(request, version).results)
        assert result.name == name
        code: int = result.error_code
        return code

    assert grow(made_topic, 3, assignments=[]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert grow(made_topic, 2, assignments=[]) == ErrorCode.INVALID_PARTITIONS
    assert grow(made_topic, 3, validate_only=True) == ErrorCode.NONE
    assert grow(made_topic, 3) == ErrorCode.NONE
    assert grow(made_topic, 3) == ErrorCode.INVALID_PARTITIONS
    assert grow(made_topic, 1) == ErrorCode.INVALID_PARTITIONS
    assert grow(f"no-{made_topic}", 3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _describe(
    connection: RawConnection, topic: str, *keys: str, version: int = 4
) -> dict[str, Any]:
    resource = DescribeConfigsRequestDescribeConfigsResource(
        resource_type=_TOPIC, resource_name=topic, configuration_keys=keys or None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    result = only(connection.ask(request, version).results)
    assert result.error_code == ErrorCode.NONE
    return {config.name: config for config in result.configs}


def _alter(
    connection: RawConnection, topic: str, *changes: tuple[str, int, str | None], version: int = 1
) -> int:
    configs = [
        IncrementalAlterConfigsRequestAlterableConfig(
            name=name, config_operation=operation, value=value
        )
        for name, operation, value in changes
    ]
    resource = IncrementalAlterConfigsRequestAlterConfigsResource(
        resource_type=_TOPIC, resource_name=topic, configs=configs
    )
    reply = connection.ask(IncrementalAlterConfigsRequest(resources=[resource]), version)
    code: int = only(reply.responses).error_code
    return code


@pytest.mark.parametrize("version", range(1, 5))
def test_all_configs_with_their_source(
    connection: RawConnection, made_topic: str, version: int
) -> None:
    assert _alter(connection, made_topic, ("retention.ms", _SET, "1234")) == ErrorCode.NONE
    wait_until(
        lambda: _describe(connection, made_topic)["retention.ms"].value == "1234",
        timeout_s=CLIENT_TIMEOUT_S,
        what="the config is seen",
    )
    configs = _describe(connection, made_topic, version=version)
    assert len(configs) > 20, "all of them, defaults included"
    changed, default = configs["retention.ms"], configs["segment.bytes"]
    assert (changed.value, changed.config_source) == ("1234", _DYNAMIC_TOPIC_CONFIG)
    assert (default.value, default.config_source) == ("1073741824", _DEFAULT_CONFIG)
    assert changed.synonyms[0].name == "retention.ms"
    assert changed.synonyms[0].source == _DYNAMIC_TOPIC_CONFIG
    assert set(_describe(connection, made_topic, "segment.bytes")) == {"segment.bytes"}


@pytest.mark.parametrize("version", [0, 1])
def test_incremental_changes(connection: RawConnection, made_topic: str, version: int) -> None:
    def value_becomes(name: str, value: str) -> None:
        wait_until(
            lambda: _describe(connection, made_topic)[name].value == value,
            timeout_s=CLIENT_TIMEOUT_S,
            what=f"{name}={value}",
        )

    def alter(*changes: tuple[str, int, str | None]) -> int:
        return _alter(connection, made_topic, *changes, version=version)

    assert alter(("cleanup.policy", _APPEND, "compact")) == ErrorCode.NONE
    value_becomes("cleanup.policy", "delete,compact")
    assert alter(("cleanup.policy", _SUBTRACT, "delete")) == ErrorCode.NONE
    value_becomes("cleanup.policy", "compact")
    assert alter(("cleanup.policy", _DELETE, None)) == ErrorCode.NONE
    value_becomes("cleanup.policy", "delete")
    assert alter(("retention.ms", _SET, "soon")) == ErrorCode.INVALID_CONFIG
    assert alter(("no.such.config", _SET, "1")) == ErrorCode.INVALID_CONFIG
    twice = alter(("retention.ms", _SET, "1"), ("retention.ms", _DELETE, None))
    assert twice == ErrorCode.INVALID_REQUEST
    unknown = _alter(connection, f"no-{made_topic}", ("retention.ms", _SET, "1"), version=version)
    assert unknown == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
