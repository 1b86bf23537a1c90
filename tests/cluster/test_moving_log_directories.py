"""Replicas move between the log directories of their nodes under load (KIP-113)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from highwater.kafka.error_codes import ErrorCode
from tests.cluster.replicated import FAST_SESSIONS, in_form, running
from tests.cluster.traffic import NumberedProducer, read_all
from tests.support.cluster_view import is_whole, view, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.log_dir_view import LogDirView
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = pytest.mark.etcd

NODES = (1, 2)


def dirs_of(directory: Path, node: int) -> list[str]:
    return [str(directory / f"disk-{node}-{name}") for name in "abc"]


@pytest.fixture(params=["split", pytest.param("combined", marks=pytest.mark.full)])
def disks(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ReplicatedCluster]:
    settings = {"controller": FAST_SESSIONS}
    for node in NODES:
        settings[f"node-{node}"] = {"log_dirs": json.dumps(dirs_of(tmp_path, node))}
    shape = Shape(nodes=len(NODES), controllers=1, etcd_members=1, settings=settings)
    with running(tmp_path, in_form(shape, request.param)) as made:
        yield made


def log_dirs(cluster: ReplicatedCluster, node: int) -> LogDirView:
    (peer,) = (one for one in cluster.nodes if one.node_id == node)
    return LogDirView(f"{peer.host}:{peer.port}")


class Load:
    """An idempotent producer that writes to partition 0 all the time."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.producer = NumberedProducer(bootstrap, topic, partition=0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.wait(0.002):
            self.producer.send(20)

    def wait_for_progress(self) -> None:
        before = len(self.producer.acknowledged)
        wait_until(
            lambda: len(self.producer.acknowledged) > before + 200,
            timeout_s=60,
            what="acknowledgements",
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()
            self.producer.flush()


def check(cluster: ReplicatedCluster, topic: str, load: Load) -> None:
    """Every record is there once, in the order in which it was sent, and none was refused."""
    assert load.producer.errors == []
    read = read_all(cluster.bootstrap, topic, 1)
    assert read == [b"%d" % number for number in range(len(read))]
    assert set(read) == load.producer.acknowledged


def names(directory: str, topic: str) -> list[str]:
    """What a directory has of partition 0, but for what is to be removed."""
    found = (path.name for path in Path(directory).glob(f"{topic}-0*"))
    return [name for name in found if not name.endswith("-delete")]


def wait_for_removal(directory: str, topic: str) -> None:
    """The old log is removed once both names are on disk, which is after the log is seen in its new place."""
    wait_until(
        lambda: names(directory, topic) == [],
        timeout_s=30,
        what=f"nothing of {topic} in {directory}",
    )


@pytest.mark.timeout(240)
def test_leader_and_follower_move_under_load(disks: ReplicatedCluster, tmp_path: Path) -> None:
    topic = make_replicated_topic(disks.bootstrap, "t", partitions=1, replication_factor=2)
    load = Load(disks.bootstrap, topic)
    with load.running():
        load.wait_for_progress()
        for _ in range(2):
            for node in NODES:
                asked = log_dirs(disks, node)
                (here,) = asked.of(topic)
                target = next(path for path in dirs_of(tmp_path, node) if path != here.path)
                assert asked.move(topic, target) == ErrorCode.NONE
                asked.wait_until_there(topic, target)
                wait_for_removal(here.path, topic)
                assert names(target, topic) == [f"{topic}-0"]
                assert asked.move(topic, target) == ErrorCode.NONE
                load.wait_for_progress()
    wait_for_view(disks.bootstrap, topic, is_whole, timeout_s=60, what="full ISRs")
    check(disks, topic, load)
    assert view(disks.bootstrap, topic)[0].leader_epoch == 0, "nobody was taken for dead"
    for node in NODES:
        (placed,) = log_dirs(disks, node).of(topic)
        assert (placed.future, placed.lag) == (False, 0)
        assert placed.size > 0
        assert disks.process(f"node-{node}").lines_with("replica_not_moved") == []


@pytest.mark.timeout(240)
def test_a_node_is_killed_while_its_replica_moves(disks: ReplicatedCluster, tmp_path: Path) -> None:
    """The move goes on, or has been completed; no record is lost or doubled."""
    topic = make_replicated_topic(disks.bootstrap, "t", partitions=1, replication_factor=2)
    load = Load(disks.bootstrap, topic)
    with load.running():
        load.wait_for_progress()
        for number in range(3):
            node = view(disks.bootstrap, topic)[0].leader
            asked = log_dirs(disks, node)
            (here,) = asked.of(topic)
            target = next(path for path in dirs_of(tmp_path, node) if path != here.path)
            assert asked.move(topic, target) == ErrorCode.NONE
            threading.Event().wait(0.03 * number)
            disks.kill_node(node)
            disks.restart_node(node)
            asked.wait_until_there(topic, target)
            load.wait_for_progress()
    wait_for_view(disks.bootstrap, topic, is_whole, timeout_s=60, what="full ISRs")
    check(disks, topic, load)
    for node in NODES:
        (placed,) = log_dirs(disks, node).of(topic)
        for path in dirs_of(tmp_path, node):
            if path != placed.path:
                wait_for_removal(path, topic)
        found = [name for path in dirs_of(tmp_path, node) for name in names(path, topic)]
        assert found == [f"{topic}-0"]
