"""DescribeQuorum on the wire."""

from __future__ import annotations

import time
from typing import Any

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.wire import RawConnection

METADATA = "__cluster_metadata"
_CLOCK_MS = 60_000
"""How long ago members may have been heard in a cluster that runs."""


def _ask(connection: RawConnection, version: int, *topics: tuple[str, list[int]]) -> Any:
    asked = [
        DescribeQuorumRequestTopicData(
            name, [DescribeQuorumRequestPartitionData(number) for number in partitions]
        )
        for name, partitions in topics
    ]
    answer = connection.ask(DescribeQuorumRequest(asked), version)
    assert answer.error_code == ErrorCode.NONE
    return answer


def _described(connection: RawConnection, version: int) -> Any:
    answer = _ask(connection, version, (METADATA, [0]))
    (topic,) = answer.topics
    (partition,) = topic.partitions
    assert (topic.topic_name, partition.partition_index) == (METADATA, 0)
    assert partition.error_code == ErrorCode.NONE
    return partition


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_leader_votes_and_all_nodes_take_part(
    cluster: Cluster, connection: RawConnection, version: int
) -> None:
    told = _described(connection, version)
    (leader,) = (one for one in told.current_voters if one.replica_id == told.leader_id)
    assert told.leader_epoch >= 0
    assert leader.log_end_offset >= told.high_watermark > 0
    replicas = [one.replica_id for one in (*told.current_voters, *told.observers)]
    assert len(replicas) == len(set(replicas))
    assert set(replicas) >= {node.node_id for node in cluster.nodes}
    now_ms = time.time() * 1000
    if version == 0:
        assert leader.last_caught_up_timestamp == -1, "the version has no times"
    else:
        assert abs(now_ms - leader.last_fetch_timestamp) < _CLOCK_MS
        assert abs(now_ms - leader.last_caught_up_timestamp) < _CLOCK_MS


def test_observers_catch_up(connection: RawConnection) -> None:
    reached = _described(connection, 2).high_watermark

    def caught_up() -> bool:
        observers = _described(connection, 2).observers
        return all(
            one.log_end_offset >= reached and one.last_fetch_timestamp > 0 for one in observers
        )

    wait_until(caught_up, timeout_s=10, what="the revision at every observer")


def test_version_2_lists_the_voters(connection: RawConnection) -> None:
    answer = _ask(connection, 2, (METADATA, [0]))
    voters = answer.topics[0].partitions[0].current_voters
    assert {one.node_id for one in answer.nodes} == {one.replica_id for one in voters}
    for node in answer.nodes:
        assert all(one.name and one.host and one.port for one in node.listeners)


@pytest.mark.parametrize(
    "topics",
    [
        [("no-such-topic", [0])],
        [(METADATA, [1])],
        [(METADATA, [0, 1])],
        [(METADATA, [0]), ("no-such-topic", [3])],
    ],
)
def test_nothing_else_has_a_quorum(
    connection: RawConnection, topics: list[tuple[str, list[int]]]
) -> None:
    answer = _ask(connection, 2, *topics)
    told = [(t.topic_name, [p.partition_index for p in t.partitions]) for t in answer.topics]
    assert told == topics
    assert {p.error_code for t in answer.topics for p in t.partitions} == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
