"""Transactions under faults: all or nothing of each, once, for consumers of both isolation levels.

`make test` strikes a transaction coordinator, a leader of accounts and a group coordinator; `make full`
strikes each of leader, transaction coordinator, group coordinator and controller in every way, with nodes
and gateways of their own and with nodes that are their own gateways.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.robustness.faults.process_faults import KillLeader, PauseLeader
from tests.robustness.faults.transactions import strikes
from tests.robustness.faults.transactions.loads import (
    of_both,
    of_franz,
    of_java,
    of_java_and_librdkafka,
    of_librdkafka,
)
from tests.robustness.faults.transactions.run import run_strikes
from tests.robustness.faults.transactions.strikes import Aim, Strike
from tests.support import node_network
from tests.support.etcd import etcd_missing

pytestmark = [pytest.mark.etcd, pytest.mark.clients, pytest.mark.timeout(420)]

_MakeStrikes = Callable[[], list[Strike]]


@pytest.fixture(autouse=True)
def _with_etcd() -> None:
    if why := etcd_missing():
        pytest.skip(why)


@pytest.mark.timeout(240)
def test_a_coordinator_is_killed_and_a_leader_paused(tmp_path: Path, seed: int) -> None:
    chosen = [
        Strike(fault=KillLeader(), aim=Aim.TRANSACTIONS),
        Strike(fault=PauseLeader(session_s=strikes.SESSION_S), aim=Aim.LEADER),
    ]
    run_strikes(chosen, of_both, tmp_path, seed)


@pytest.mark.timeout(240)
def test_a_group_coordinator_is_killed_with_its_gateway(tmp_path: Path, seed: int) -> None:
    chosen = [Strike(fault=KillLeader(), aim=Aim.GROUP)]
    run_strikes(chosen, of_franz, tmp_path, seed, form="combined")


@pytest.mark.full
@pytest.mark.parametrize("struck", [strikes.killed, strikes.terminated, strikes.paused])
def test_processes(struck: _MakeStrikes, tmp_path: Path, seed: int) -> None:
    run_strikes(struck(), of_both, tmp_path, seed)


@pytest.mark.full
@pytest.mark.parametrize("struck", [strikes.killed, strikes.paused])
def test_processes_with_gateways(struck: _MakeStrikes, tmp_path: Path, seed: int) -> None:
    run_strikes(struck(), of_both, tmp_path, seed, form="combined")


@pytest.mark.full
@pytest.mark.parametrize(
    ("struck", "form"),
    [(strikes.cut, "split"), (strikes.half_cut, "split"), (strikes.cut, "combined")],
)
def test_networks(struck: _MakeStrikes, form: str, tmp_path: Path, seed: int) -> None:
    if why := node_network.missing():
        pytest.skip(why)
    run_strikes(struck(), of_both, tmp_path, seed, form=form)


@pytest.mark.full
def test_controllers(tmp_path: Path, seed: int) -> None:
    run_strikes(strikes.controllers(), of_librdkafka, tmp_path, seed)


@pytest.mark.full
def test_several_at_once(tmp_path: Path, seed: int) -> None:
    run_strikes(strikes.together(), of_both, tmp_path, seed)


@pytest.mark.full
def test_franz_go(tmp_path: Path, seed: int) -> None:
    run_strikes(strikes.terminated(), of_franz, tmp_path, seed, form="combined")


@pytest.mark.full
@pytest.mark.java
@pytest.mark.parametrize("struck", [strikes.killed, strikes.paused])
def test_java(struck: _MakeStrikes, tmp_path: Path, seed: int) -> None:
    run_strikes(struck(), of_java, tmp_path, seed)


@pytest.mark.full
@pytest.mark.java
def test_java_and_librdkafka_with_gateways(tmp_path: Path, seed: int) -> None:
    run_strikes(strikes.terminated(), of_java_and_librdkafka, tmp_path, seed, form="combined")
