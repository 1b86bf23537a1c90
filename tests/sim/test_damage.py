"""Replicas whose logs are damaged and made anew while their nodes live (R13)."""

import pytest

from highwater.partition.core import replica_events as on
from highwater.partition.core.transitions import Role
from tests.sim.hunt import try_seed
from tests.sim.node import NodeProcess

SEEDS = 40


def test_damaged_logs_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """At any time, whatever other disks have lost."""
    anew = {True: 0, False: 0}
    make_anew = NodeProcess._make_anew

    def count(process: NodeProcess, *, keep_log: bool = False) -> None:
        anew[keep_log] += process.damaged_in is not None
        make_anew(process, keep_log=keep_log)

    monkeypatch.setattr(NodeProcess, "_make_anew", count)
    failed = {seed: try_seed(seed).failure for seed in range(SEEDS)}
    assert set(failed.values()) == {""}
    assert anew[False] > SEEDS // 4


@pytest.mark.parametrize("seed", [32, 34])
def test_a_replica_that_steps_back_for_one_that_may_be_dead_loses_records(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Why another one has to prove that it lives: not being fenced says little (`Quarantine`)."""
    assert try_seed(seed).failure == ""

    def at_once(process: NodeProcess) -> None:
        replica = process.replica
        others = set(replica.isr.committed) - {process.node} - process.fenced_nodes
        counted = process.node in replica.isr.committed
        if replica.role is not Role.OFFLINE and counted and others:
            process.damaged_in = replica.leader_epoch
            process.handle(on.LogFailed())

    monkeypatch.setattr(NodeProcess, "quarantine", at_once)
    assert "R1: 1 elected, set() were eligible" in try_seed(seed).failure
