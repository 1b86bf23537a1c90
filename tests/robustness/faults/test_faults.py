"""Faults under load: no acknowledged record lost, none twice, order kept, consumers never back.

`make test` puts one cluster through the three commonest faults, and one of nodes that are their own
gateways through the first of them; `make full` starts a cluster for each fault of the catalogue, for
many also one of such nodes (`NOT_COMBINED` says why not for all), and for those that break the hop one
whose services speak over grpcio. What cannot be done on a machine is skipped and says why.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.robustness.faults.catalogue import (
    NOT_COMBINED,
    combine,
    combined_faults,
    every_fault,
    grpcio_faults,
    name_of,
)
from tests.robustness.faults.fault import Fault
from tests.robustness.faults.process_faults import KillLeader, PauseLeader, TerminateLeader
from tests.robustness.faults.run import run_fault, run_in
from tests.support.cluster import COMPLAINT_WORDS
from tests.support.etcd import etcd_missing
from tests.support.process import COMPLAINTS_MAX, ManagedProcess
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = pytest.mark.etcd

_FAST_SESSION_S = 2.4
_FAST_SESSIONS = {
    "session_timeout_ms": str(int(_FAST_SESSION_S * 1000)),
    "heartbeat_interval_ms": "400",
}
_NUMBERS = {*range(1, 32), *range(35, 38)}
"""Of the catalogue; F32 to F34 are the business of the fuzz and quota suites."""


def all_cases() -> list[Fault]:
    """The catalogue, and what of it is repeated in other forms of the cluster."""
    return every_fault() + combined_faults() + grpcio_faults()


def _case(fault: Fault) -> Any:
    return pytest.param(fault, id=name_of(fault))


@pytest.fixture(autouse=True)
def _with_etcd() -> None:
    if why := etcd_missing():
        pytest.skip(why)


@pytest.mark.timeout(180)
def test_a_leader_is_killed_stopped_and_paused(tmp_path: Path, seed: int) -> None:
    cluster = ReplicatedCluster(tmp_path, Shape(settings={"controller": _FAST_SESSIONS}))
    try:
        cluster.start()
        pause = PauseLeader(session_s=_FAST_SESSION_S)
        run_in(cluster, [KillLeader(), TerminateLeader(), pause], seed)
    finally:
        cluster.stop()


@pytest.mark.timeout(180)
def test_a_leader_is_killed_with_its_gateway(tmp_path: Path, seed: int) -> None:
    fault = KillLeader()
    fault.shape = Shape(controllers=1, etcd_members=1, settings={"controller": _FAST_SESSIONS})
    combine(fault)
    run_fault(fault, tmp_path, seed)


@pytest.mark.full
@pytest.mark.timeout(420)
@pytest.mark.parametrize("fault", [_case(fault) for fault in all_cases()])
def test_fault(fault: Fault, tmp_path: Path, seed: int) -> None:
    if why := fault.probe():
        pytest.skip(f"{fault.id} {fault.title}: {why}")
    run_fault(fault, tmp_path, seed)


def test_every_fault_has_a_name_of_its_own() -> None:
    names = [name_of(fault) for fault in all_cases()]
    assert len(set(names)) == len(names)


def test_every_fault_of_the_catalogue_is_there() -> None:
    numbers = {int(fault.id.partition("-")[0].removeprefix("F")) for fault in every_fault()}
    assert numbers == _NUMBERS


def test_every_fault_has_a_case_with_combined_nodes_or_a_reason() -> None:
    combined = {fault.id for fault in combined_faults()}
    assert combined.isdisjoint(NOT_COMBINED)
    assert combined | set(NOT_COMBINED) == {fault.id for fault in every_fault()}


def test_expected_lines_hide_no_others(tmp_path: Path) -> None:
    process = ManagedProcess("node", ["true"], log_path=tmp_path / "node.log")
    lines = ['{"level": "error", "event": "log_dir_failed"}'] * (COMPLAINTS_MAX + 5)
    process.log_path.write_text("\n".join([*lines, "Traceback (most recent call last)", *lines]))
    assert process.lines_with(*COMPLAINT_WORDS, without=["log_dir_failed"]) == [
        "Traceback (most recent call last)"
    ]
    assert len(process.lines_with(*COMPLAINT_WORDS)) == COMPLAINTS_MAX
