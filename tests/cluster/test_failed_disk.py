"""A leader's log directory fails while another replica can lead: clients wait and see no error."""

from __future__ import annotations

import json
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.kafka.error_codes import ErrorCode
from tests.cluster.replicated import FAST_SESSIONS, RECOVERY_S_MAX, running
from tests.cluster.test_node_restart import IN_FLIGHT, RawProducer
from tests.cluster.traffic import read_all
from tests.conformance.protocol.requests import fetch
from tests.support.cluster_view import view, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster
from tests.support.wire import RawConnection

pytestmark = pytest.mark.etcd

ALL = -1
WORKING_BYTES = 96 << 10
"""Bytes by which files may grow before the kernel refuses writes, as on a full disk."""


@pytest.fixture
def two_disks(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    """Every node has a second directory, since a node without a usable one stops."""
    settings = {"controller": FAST_SESSIONS}
    for node in (1, 2, 3):
        dirs = [str(tmp_path / f"disk-{node}-{name}") for name in "ab"]
        settings[f"node-{node}"] = {"log_dirs": json.dumps(dirs)}
    shape = Shape(controllers=1, etcd_members=1, settings=settings)
    with running(tmp_path, shape) as made:
        yield made


class FetchCodes(threading.Thread):
    """Fetches from the end of a partition in a loop, and collects error codes."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._gateway = bootstrap
        self._topic = topic
        self._stopping = threading.Event()
        self.codes: list[int] = []

    def run(self) -> None:
        with RawConnection.to(self._gateway) as connection:
            while not self._stopping.is_set():
                self.codes.append(fetch(connection, self._topic, 0, max_wait_ms=0).error_code)
                time.sleep(0.005)

    def stop(self) -> set[int]:
        self._stopping.set()
        self.join(30)
        return set(self.codes)


@pytest.mark.timeout(150)
def test_clients_wait_for_the_next_leader(two_disks: ReplicatedCluster) -> None:
    topics = [
        make_replicated_topic(
            two_disks.bootstrap, name, partitions=1, configs={"min.insync.replicas": "2"}
        )
        for name in ("plain", "idempotent")
    ]
    for number, topic in enumerate(topics):
        leader = view(two_disks.bootstrap, topic)[0].leader
        producer = RawProducer(two_disks.bootstrap, topic, 0, idempotent=number == 1, acks=ALL)
        reader = FetchCodes(two_disks.bootstrap, topic)
        for thread in (producer, reader):
            thread.start()
        time.sleep(0.5)
        _break_disks(two_disks, leader, topic)
        wait_for_view(
            two_disks.bootstrap,
            topic,
            lambda parts, was=leader: parts[0].leader not in (-1, was),
            timeout_s=RECOVERY_S_MAX,
            what="another leader",
        )
        time.sleep(0.5)
        producer.stop()
        codes = reader.stop()

        process = two_disks.process(f"node-{leader}")
        assert process.lines_with("log_dir_failed")
        assert ErrorCode.KAFKA_STORAGE_ERROR not in codes, codes
        # The batch in flight is in a log that is lost; idempotent batches are sent again.
        in_doubt = set() if number == 1 else {ErrorCode.REQUEST_TIMED_OUT}
        assert set(producer.refused.values()) <= in_doubt
        assert len(producer.refused) <= IN_FLIGHT
        numbers = [int(value) for value in read_all(two_disks.bootstrap, topic, 1)]
        assert numbers == sorted(set(numbers)), "none twice, and in order"
        missing = set(range(len(producer.answers))) - set(numbers)
        assert missing <= producer.refused.keys(), "none is lost"
        _restart(two_disks, leader)


def _break_disks(cluster: ReplicatedCluster, node: int, topic: str) -> None:
    (log,) = cluster.data_dir(node).parent.glob(f"disk-{node}-*/{topic}-0/*.log")
    bytes_max = log.stat().st_size + WORKING_BYTES
    pid = cluster.process(f"node-{node}").pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (bytes_max, resource.RLIM_INFINITY))


def _restart(cluster: ReplicatedCluster, node: int) -> None:
    cluster.kill_node(node)
    cluster.restart_node(node)
