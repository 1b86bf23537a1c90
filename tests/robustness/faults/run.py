"""Runs one fault: a cluster, load, damage, repair, and a verdict on the histories."""

from __future__ import annotations

import random
import time
from pathlib import Path

from tests.robustness.faults.checker import report, violations
from tests.robustness.faults.fault import Fault, Scene
from tests.robustness.faults.workload import Workload
from tests.support.cluster_view import wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.partition_logs import assert_identical_logs
from tests.support.process import wait_until
from tests.support.replicated_cluster import ReplicatedCluster

PARTITIONS = 3
STEADY = 60
"""Acknowledgements of each partition before and after a fault."""
HEALED_S_MAX = 90.0
_STALLED = "event_loop_stalled"
"""Log events of a process that was paused, or that waited on a busy machine."""
READ_S_MAX = 90.0


def run_fault(fault: Fault, directory: Path, seed: int) -> None:
    """Starts a cluster for the fault alone, and ends it."""
    directories = fault.prepare(directory)
    try:
        cluster = ReplicatedCluster(
            directory,
            fault.shape,
            hosts=fault.hosts(),
            data_dirs=directories,
            environments=fault.environments(directory),
        )
        try:
            cluster.start()
            fault.started(cluster)
            run_in(cluster, [fault], seed)
        finally:
            cluster.stop()
    finally:
        fault.clean_up()


def run_in(cluster: ReplicatedCluster, faults: list[Fault], seed: int) -> None:
    """Runs faults one after the other in one cluster and under one load."""
    topic = make_replicated_topic(
        cluster.bootstrap,
        "faults",
        partitions=PARTITIONS,
        configs={"min.insync.replicas": "2", **faults[0].topic_configs},
    )
    workload = Workload(
        cluster.bootstraps,
        topic,
        partitions=PARTITIONS,
        group=f"group-of-{topic}",
        settings=faults[0].client_settings,
    )
    scene = Scene(cluster, topic, workload, random.Random(seed))
    try:
        workload.start()
        workload.wait_for_progress(STEADY, timeout_s=60)
        for fault in faults:
            _break_and_heal(scene, fault)
        workload.finish(timeout_s=READ_S_MAX)
        _judge(scene, faults)
    except BaseException:
        print(f"{[fault.id for fault in faults]} failed: {workload.summary()}; {scene.notes}")
        raise
    finally:
        workload.abandon()


def _break_and_heal(scene: Scene, fault: Fault) -> None:
    begun_s = scene.begun_s = time.monotonic()
    fault.inject(scene)
    injected_s = time.monotonic()
    fault.heal(scene)
    healed_s = time.monotonic()
    scene.wait_whole(HEALED_S_MAX)
    whole_s = time.monotonic()
    if fault.producer_survives:
        scene.progress(STEADY)
    pause_s, told = scene.workload.pause(since=scene.begun_s, until=time.monotonic())
    print(
        f"\n{fault.id} {fault.title}: longest pause {told}; broken for "
        f"{injected_s - begun_s:.1f} s, repaired in {healed_s - injected_s:.1f} s, whole "
        f"{whole_s - healed_s:.1f} s later; {'; '.join(scene.notes) or 'nothing else to tell'}"
    )
    scene.notes.clear()
    if fault.pause_s_max is not None:
        assert pause_s <= fault.pause_s_max, f"no acknowledgement: {told}"


def _judge(scene: Scene, faults: list[Fault]) -> None:
    history = scene.workload.history
    print(f"    {scene.workload.summary()}")
    allowed = frozenset[str]().union(*(fault.allowed for fault in faults))
    found = [violation for violation in violations(history) if violation.kind not in allowed]
    assert not found, report(found)
    if not any(fault.failures_allowed for fault in faults):
        failed = {p: dict(list(f.items())[:3]) for p, f in history.failed.items() if f}
        assert not failed, f"failed sends, number -> error: {failed}"
        assert not any(history.errors.values()), dict(history.errors)
    _wait_all_whole(scene)
    for partition in range(history.partitions):
        assert_identical_logs(scene.cluster, scene.topic, partition)
    for fault in faults:
        fault.check(scene)
    expected = (_STALLED, *(word for fault in faults for word in fault.complaints))
    assert scene.cluster.complaints(expected) == [], "unexpected log lines"


def _wait_all_whole(scene: Scene) -> None:
    """Waits until all topics, also internal ones, are in sync and do not change any more."""
    wait_until(scene.cluster.is_whole, timeout_s=HEALED_S_MAX, what="full ISRs of all topics")
    wait_for_view(
        scene.cluster.bootstrap,
        scene.topic,
        lambda parts: all(not part.offline for part in parts.values()),
        timeout_s=HEALED_S_MAX,
        what="no node away",
    )
