"""The measurements that break nodes run to their end, at a small size, on real processes."""

from __future__ import annotations

import pytest

from tests.bench import failover, load, node_restart
from tests.bench.faults import Fault
from tests.bench.growth import measure as measure_growth
from tests.bench.peers import make_breakable_peer

pytestmark = [pytest.mark.full, pytest.mark.timeout(400)]


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    load.build()


@pytest.mark.java
def test_a_leader_of_kafka_is_ended_and_killed() -> None:
    told: list[str] = []
    faults = [Fault.TERMINATE, Fault.KILL]
    found = failover.measure(make_breakable_peer("kafka3"), faults, told.append)
    assert found.is_clean, (found, told)
    assert [done.fault for done in found.rounds] == faults
    ended, killed = found.rounds
    # An orderly end hands leadership over first; a death is detected by a timeout.
    assert 0 < ended.pause_s < killed.pause_s < 60
    assert found.read_back is not None
    assert found.read_back.acknowledged > 100


@pytest.mark.parametrize("mode", ["embedded", "services"])
def test_a_killed_node_serves_all_partitions_again(mode: str) -> None:
    told: list[str] = []
    found = node_restart.measure(
        make_breakable_peer(mode), partitions=20, total_bytes=40 << 20, rounds=2, tell=told.append
    )
    assert found.loaded_bytes == 40 << 20
    assert len(found.serve_s) == 2
    assert all(0 < seconds < 30 for seconds in found.serve_s)
    assert len(told) == 3


def test_growth_restarts_the_peer_for_each_size() -> None:
    found = measure_growth(
        make_breakable_peer("services"),
        20,
        windows=1,
        seconds=1.0,
        warmup_seconds=1.0,
        tell=lambda _: None,
    )
    assert (found.partitions, found.replication) == (20, 1)
    assert found.mb_per_s > 0
    assert found.idle_bytes is not None
    assert found.idle_bytes > 0
