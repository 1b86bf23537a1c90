"""Faults under load: no acknowledged record lost, none twice, order kept, consumers never back.

`make test` puts one cluster through the three commonest faults; `make full` starts a cluster for
each fault of the catalogue. What cannot be done on a machine is skipped and says why.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.robustness.faults.catalogue import every_fault, name_of
from tests.robustness.faults.fault import Fault
from tests.robustness.faults.process_faults import KillLeader, PauseLeader, TerminateLeader
from tests.robustness.faults.run import run_fault, run_in
from tests.support.etcd import etcd_missing
from tests.support.replicated_cluster import ReplicatedCluster, Shape

pytestmark = pytest.mark.etcd

_FAST_SESSIONS = {"session_timeout_ms": "2400", "heartbeat_interval_ms": "400"}


def _case(fault: Fault) -> Any:
    known = pytest.mark.xfail(reason=fault.known_failure, strict=False)
    return pytest.param(fault, id=name_of(fault), marks=known if fault.known_failure else ())


@pytest.fixture(autouse=True)
def _with_etcd() -> None:
    if why := etcd_missing():
        pytest.skip(why)


@pytest.mark.timeout(180)
def test_a_leader_is_killed_stopped_and_paused(tmp_path: Path, seed: int) -> None:
    cluster = ReplicatedCluster(tmp_path, Shape(settings={"controller": _FAST_SESSIONS}))
    try:
        cluster.start()
        run_in(cluster, [KillLeader(), TerminateLeader(), PauseLeader(seconds=5)], seed)
    finally:
        cluster.stop()


@pytest.mark.full
@pytest.mark.timeout(420)
@pytest.mark.parametrize("fault", [_case(fault) for fault in every_fault()])
def test_fault(fault: Fault, tmp_path: Path, seed: int) -> None:
    if why := fault.probe():
        pytest.skip(f"{fault.id} {fault.title}: {why}")
    run_fault(fault, tmp_path, seed)


def test_every_fault_has_a_name_of_its_own() -> None:
    names = [name_of(fault) for fault in every_fault()]
    assert len(set(names)) == len(names)
