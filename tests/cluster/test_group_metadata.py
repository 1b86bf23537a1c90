"""The group metadata topic gets all its replicas, even if the first group comes early."""

from __future__ import annotations

from pathlib import Path

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.kafka.messages.find_coordinator import FindCoordinatorRequest
from highwater.model.ids import GROUP_METADATA_TOPIC
from tests.cluster.runner import START_TIMEOUT_S, Up
from tests.support.process import wait_until
from tests.support.wire import ConnectionEnded, RawConnection

_VERSION = 4
_REQUEST = FindCoordinatorRequest(coordinator_keys=["readers"])


def _has_coordinator(up: Up) -> bool:
    try:
        with RawConnection.to(up.bootstrap) as connection:
            (found,) = connection.ask(_REQUEST, _VERSION).coordinators
    except (OSError, ConnectionEnded):
        return False  # No gateway listens yet.
    return not found.error_code


def test_the_first_group_waits_for_all_nodes(tmp_path: Path) -> None:
    up = Up("nodes3", tmp_path)
    up.process.start()  # The group asks before the command is ready.
    try:
        wait_until(lambda: _has_coordinator(up), timeout_s=START_TIMEOUT_S, what="a coordinator")
        with KafkaClient(up.bootstrap) as client:
            (topic,) = client.metadata([GROUP_METADATA_TOPIC]).topics
    finally:
        up.stop()
    replicas = [sorted(partition.replica_nodes) for partition in topic.partitions]
    assert replicas == [[1, 2, 3]] * 50
