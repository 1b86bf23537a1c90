"""A replica that a reassignment brings to a node goes to the log directory that was chosen for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestReassignablePartition,
    AlterPartitionReassignmentsRequestReassignableTopic,
)
from highwater.kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsRequestAlterReplicaLogDir,
    AlterReplicaLogDirsRequestAlterReplicaLogDirTopic,
)
from tests.cluster.replicated import FAST_SESSIONS, running
from tests.cluster.traffic import NumberedProducer, read_all
from tests.support.cluster_view import is_whole, view, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster
from tests.support.wire import RawConnection

pytestmark = pytest.mark.etcd

NODES = (1, 2)


def dirs_of(directory: Path, node: int) -> list[Path]:
    return [directory / f"disk-{node}-{name}" for name in "abc"]


@pytest.fixture
def three_disks(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    settings = {"controller": FAST_SESSIONS}
    for node in NODES:
        paths = [str(path) for path in dirs_of(tmp_path, node)]
        settings[f"node-{node}"] = {"log_dirs": json.dumps(paths)}
    shape = Shape(nodes=len(NODES), controllers=1, etcd_members=1, settings=settings)
    with running(tmp_path, shape) as made:
        yield made


def choose(cluster: ReplicatedCluster, node: int, topic: str, path: Path) -> int:
    """Asks the node itself for partition 0; returns the code."""
    wish = AlterReplicaLogDirsRequestAlterReplicaLogDir(
        str(path), [AlterReplicaLogDirsRequestAlterReplicaLogDirTopic(topic, [0])]
    )
    (peer,) = (one for one in cluster.nodes if one.node_id == node)
    with RawConnection.to(f"{peer.host}:{peer.port}") as connection:
        answer = connection.ask(AlterReplicaLogDirsRequest([wish]), 2)
    ((result,),) = [one.partitions for one in answer.results]
    code: int = result.error_code
    return code


@pytest.mark.timeout(150)
def test_a_moved_partition_goes_to_the_chosen_directory(
    three_disks: ReplicatedCluster, tmp_path: Path
) -> None:
    topic = make_replicated_topic(three_disks.bootstrap, "t", partitions=1, replication_factor=1)
    producer = NumberedProducer(three_disks.bootstrap, topic)
    producer.send(200)
    producer.flush()
    before = read_all(three_disks.bootstrap, topic, 1)
    (source,) = view(three_disks.bootstrap, topic)[0].replicas
    (target,) = set(NODES) - {source}
    chosen = dirs_of(tmp_path, target)[2]

    assert choose(three_disks, target, topic, chosen) == ErrorCode.REPLICA_NOT_AVAILABLE
    partition = AlterPartitionReassignmentsRequestReassignablePartition(0, [target])
    moved = AlterPartitionReassignmentsRequest(
        60_000, topics=[AlterPartitionReassignmentsRequestReassignableTopic(topic, [partition])]
    )
    with RawConnection.to(three_disks.bootstrap) as connection:
        assert connection.ask(moved, 0).error_code == ErrorCode.NONE
    wait_for_view(
        three_disks.bootstrap,
        topic,
        lambda parts: parts[0].replicas == (target,) and is_whole(parts),
        timeout_s=60,
        what=f"replica {target}",
    )

    assert (chosen / f"{topic}-0" / "00000000000000000000.log").stat().st_size > 0
    assert choose(three_disks, target, topic, chosen) == ErrorCode.NONE
    other = dirs_of(tmp_path, target)[0]
    assert choose(three_disks, target, topic, other) == ErrorCode.NONE
    wait_until(
        lambda: (other / f"{topic}-0").is_dir() and not (chosen / f"{topic}-0").exists(),
        timeout_s=30,
        what="the log in another directory",
    )
    assert read_all(three_disks.bootstrap, topic, 1) == before
    assert len(before) == 200
