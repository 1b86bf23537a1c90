"""DeleteRecords when processes die: what was answered holds at every replica, and at no cost of others."""

from __future__ import annotations

import time

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestDeleteRecordsPartition,
    DeleteRecordsRequestDeleteRecordsTopic,
)
from highwater.partition.storage import checkpoint
from highwater.partition.storage.filesystem import FileSystem
from highwater.partition.storage.names import LOG_START_CHECKPOINT
from tests.cluster.replicated import ISR_S_MAX, RECOVERY_S_MAX
from tests.cluster.runner import Up
from tests.cluster.traffic import NumberedProducer
from tests.conformance.protocol.requests import fetch, list_offset
from tests.conformance.topics import make_topic
from tests.support.cluster_view import view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until
from tests.support.replicated_cluster import ReplicatedCluster
from tests.support.wire import RawConnection, only

FORMS = ("split", "mixed", "grpcio")
EARLIEST, LATEST = -2, -1
RECORDS = 60


def delete(bootstrap: str, topic: str, offset: int, *, timeout_ms: int = 20_000) -> tuple[int, int]:
    """(error code, low watermark) for partition 0."""
    part = DeleteRecordsRequestDeleteRecordsPartition(0, offset)
    request = DeleteRecordsRequest(
        [DeleteRecordsRequestDeleteRecordsTopic(topic, [part])], timeout_ms
    )
    with RawConnection.to(bootstrap) as connection:
        found = only(only(connection.ask(request, 2).topics).partitions)
    return found.error_code, found.low_watermark


def ends(bootstrap: str, topic: str) -> tuple[int, int]:
    """The first and the next offset, as clients see them; (-1, -1) while nobody leads."""
    with RawConnection.to(bootstrap) as connection:
        first, last = (list_offset(connection, topic, end) for end in (EARLIEST, LATEST))
    return (-1, -1) if first.error_code or last.error_code else (first.offset, last.offset)


def kept(cluster: ReplicatedCluster, topic: str) -> list[int]:
    """The log start offset on the disk of each node."""
    paths = [cluster.data_dir(node) / LOG_START_CHECKPOINT for node in cluster.node_ids]
    read = [checkpoint.read_offsets(FileSystem(), str(path)) for path in paths]
    return [offsets.get((topic, 0), 0) for offsets in read]


def filled(bootstrap: str, topic: str) -> None:
    producer = NumberedProducer(bootstrap, topic)
    producer.send(RECORDS)
    producer.flush()
    assert not producer.errors


@pytest.mark.etcd
@pytest.mark.timeout(240)
def test_all_replicas_keep_what_was_answered(whole: ReplicatedCluster) -> None:
    topic = make_replicated_topic(
        whole.bootstrap, "purged", partitions=1, configs={"min.insync.replicas": "1"}
    )
    filled(whole.bootstrap, topic)
    assert delete(whole.bootstrap, topic, 20) == (ErrorCode.NONE, 20)
    assert kept(whole, topic) == [20, 20, 20], "on all disks before the answer"

    follower = next(n for n in whole.node_ids if n != view(whole.bootstrap, topic)[0].leader)
    whole.pause(f"node-{follower}")
    begun = time.monotonic()
    code, low = delete(whole.bootstrap, topic, 30, timeout_ms=300)
    assert time.monotonic() - begun < 5
    assert (code, low) == (ErrorCode.REQUEST_TIMED_OUT, 20)
    assert ends(whole.bootstrap, topic)[0] == 30, "the leader has deleted them"
    whole.resume(f"node-{follower}")
    assert delete(whole.bootstrap, topic, 30) == (ErrorCode.NONE, 30)

    whole.kill_node(follower)
    assert delete(whole.bootstrap, topic, 40) == (ErrorCode.NONE, 40), "once it is fenced"
    whole.start_node(follower)
    whole.wait_node(follower)
    wait_until(whole.is_whole, timeout_s=ISR_S_MAX, what="all in sync")
    wait_until(
        lambda: kept(whole, topic) == [40, 40, 40], timeout_s=ISR_S_MAX, what="all begin at 40"
    )

    leader = view(whole.bootstrap, topic)[0].leader
    whole.kill_node(leader)
    wait_until(
        lambda: (
            view(whole.bootstrap, topic)[0].leader not in (-1, leader)
            and ends(whole.bootstrap, topic) == (40, RECORDS)
        ),
        timeout_s=RECOVERY_S_MAX,
        what="another leader that begins at 40 and has lost nothing",
    )
    with RawConnection.to(whole.bootstrap) as connection:
        assert fetch(connection, topic, 39).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert fetch(connection, topic, 40).error_code == ErrorCode.NONE
    assert delete(whole.bootstrap, topic, -1) == (ErrorCode.NONE, RECORDS)


@pytest.mark.parametrize("up", ["embedded"], indirect=True)
def test_one_node_keeps_what_it_answered_when_it_is_killed(up: Up) -> None:
    topic = "purged"
    make_topic(up.bootstrap, topic)
    filled(up.bootstrap, topic)
    assert delete(up.bootstrap, topic, 25) == (ErrorCode.NONE, 25)
    up.kill()
    up.start()
    assert ends(up.bootstrap, topic) == (25, RECORDS)
