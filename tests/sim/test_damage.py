"""Replicas whose logs are damaged and made anew while their nodes live (R13)."""

import pytest

from tests.sim.hunt import try_seed
from tests.sim.node import NodeProcess

SEEDS = 40


def test_damaged_logs_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    anew = {True: 0, False: 0}
    make_anew = NodeProcess._make_anew

    def count(process: NodeProcess, *, keep_log: bool = False) -> None:
        anew[keep_log] += process.damaged_in is not None
        make_anew(process, keep_log=keep_log)

    monkeypatch.setattr(NodeProcess, "_make_anew", count)
    failed = {seed: try_seed(seed).failure for seed in range(SEEDS)}
    assert set(failed.values()) == {""}
    assert anew[False] > SEEDS // 4


def test_a_late_fetch_of_the_damaged_log_would_vouch_for_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why a replica that its leader had dropped keeps its log (`Replicas._end_quarantine`)."""
    assert try_seed(5_833).failure == ""
    make_anew = NodeProcess._make_anew

    def without_log(process: NodeProcess, *, keep_log: bool = False) -> None:
        del keep_log
        make_anew(process)

    monkeypatch.setattr(NodeProcess, "_make_anew", without_log)
    assert "R3: node 1 may be elected" in try_seed(5_833).failure
