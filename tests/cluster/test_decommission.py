"""A node is decommissioned under load, with the commands of an operator."""

from __future__ import annotations

import pytest

from tests.cluster.replicated import FAST_SESSIONS
from tests.cluster.runner import run
from tests.robustness.faults.checker import report, violations
from tests.robustness.faults.workload import Workload
from tests.support.cluster_view import is_whole, view_topics, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.partition_logs import assert_identical_logs
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = pytest.mark.etcd

SHAPE = Shape(nodes=4, controllers=1, etcd_members=1, settings={"controller": FAST_SESSIONS})
LEAVING = 4
PARTITIONS = 4


@pytest.mark.timeout(300)
def test_a_node_is_emptied_stopped_and_forgotten(replicated: ReplicatedCluster) -> None:
    where = ("--controller", f"127.0.0.1:{replicated.ports.controllers[1]}")
    topic = make_replicated_topic(
        replicated.bootstrap, "t", partitions=PARTITIONS, configs={"min.insync.replicas": "2"}
    )
    assert any(
        LEAVING in part.replicas for part in view_topics(replicated.bootstrap)[topic].values()
    )
    workload = Workload(replicated.bootstraps, topic, partitions=PARTITIONS, group=f"of-{topic}")
    try:
        workload.start()
        workload.wait_for_progress(20, timeout_s=60)
        done = run("node", "decommission", str(LEAVING), "--moves", "20", *where, timeout_s=150)
        assert done.returncode == 0, done.stderr
        told = done.stdout.splitlines()
        assert told[-2] == f"node {LEAVING}: 0 replicas left, 0 moving"
        assert told[-1].endswith(f"highwater node remove {LEAVING}")
        topics = view_topics(replicated.bootstrap)
        parts = [part for partitions in topics.values() for part in partitions.values()]
        assert all(LEAVING not in part.replicas for part in parts)
        assert {len(part.replicas) for part in topics[topic].values()} == {3}
        directory = replicated.data_dir(LEAVING)
        wait_until(
            lambda: not any(path.name.startswith(f"{topic}-") and "." not in path.name
                            for path in directory.iterdir()),
            timeout_s=30,
            what="no replica on the disk",
        )  # fmt: skip
        workload.wait_for_progress(20, timeout_s=60)
        early = run("node", "remove", str(LEAVING), *where)
        assert (early.returncode, "stop it first" in early.stderr) == (2, True)
        later = make_replicated_topic(replicated.bootstrap, "later", partitions=4)
        placed = view_topics(replicated.bootstrap)[later].values()
        assert all(LEAVING not in part.replicas for part in placed), "nothing new comes there"
        too_many = run("node", "decommission", "3", *where)
        assert too_many.returncode == 2
        assert f"{topic} (3 replicas)" in too_many.stderr
        replicated.terminate_node(LEAVING)
        wait_until(
            lambda: run("node", "remove", str(LEAVING), *where).returncode == 0,
            timeout_s=30,
            what="the node forgotten",
        )
        listed = run("node", "list", *where)
        rows = [line.split("│")[1].strip() for line in listed.stdout.splitlines() if "│" in line]
        assert rows == ["1", "2", "3"]
        workload.wait_for_progress(20, timeout_s=60)
        history = workload.finish(timeout_s=90)
        print(f"\n{workload.summary()}")
    finally:
        workload.abandon()
    found = violations(history)
    assert not found, report(found)
    assert history.failed_count() == 0
    after = wait_for_view(
        replicated.bootstrap, topic, is_whole, timeout_s=30, what="leaders and full ISRs"
    )
    for number, part in after.items():
        assert_identical_logs(replicated, topic, number, part.replicas)
    # The same directory may come back, as a node like any other.
    replicated.start_node(LEAVING)
    wait_until(
        lambda: not replicated.store.is_fenced(LEAVING),
        timeout_s=45,
        what="the node back, unfenced",
    )
