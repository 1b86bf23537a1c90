"""The tables of failover, restart and growth; the runs themselves need a cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.bench import failover, restart
from tests.bench.failover import Outcome
from tests.bench.faults import Fault, Round
from tests.bench.growth import GrowthResult, workload_of
from tests.bench.node_restart import DataLost, RestartResult, check_ends
from tests.bench.peers import make_breakable_peer
from tests.bench.topic_view import is_in_every_isr, is_in_no_isr
from tests.bench.writer import ReadBack
from tests.support.cluster_view import PartitionView

WHOLE = ReadBack(acknowledged=100, missing=0, repeated=0)


def outcome(peer: str, pauses: dict[Fault, list[float]], **changes: object) -> Outcome:
    rounds = [
        Round(fault=fault, node=1, was_controller=i == 0, pause_s=pause_s, whole_s=2.0)
        for fault, all_s in pauses.items()
        for i, pause_s in enumerate(all_s)
    ]
    values: dict[str, Any] = {
        "peer": peer, "version": "v", "rounds": tuple(rounds), "problem": None,
        "failed_sends": (), "read_back": WHOLE,
    }  # fmt: skip
    return Outcome(**{**values, **changes})


def test_median_and_worst_pause_are_compared_with_the_targets() -> None:
    ours = outcome("services3", {Fault.KILL: [1.0, 1.5, 4.5], Fault.TERMINATE: [0.2]})
    theirs = outcome("kafka3", {Fault.KILL: [9.0, 13.0]})
    lines = failover.table([ours, theirs])
    assert lines[0][:6] == [
        "services3", "kill -9", "3", "1.50 (< 2: reached)", "4.50 (< 4: missed)", "1",
    ]  # fmt: skip
    assert lines[1][1:5] == ["SIGTERM", "1", "0.20", "0.20 (< 0.3: reached)"]
    assert lines[2][:5] == ["kafka3", "kill -9", "2", "11.00", "13.00"]
    assert {len(line) for line in lines} == {len(failover.HEADER)}
    json.dumps(failover._json(ours))


@pytest.mark.parametrize(
    "changes",
    [
        {"problem": "NoAck: no write acknowledged within 150 s"},
        {"failed_sends": ("record 3: timed out",)},
        {"read_back": ReadBack(acknowledged=100, missing=1, repeated=0)},
        {"read_back": ReadBack(acknowledged=100, missing=0, repeated=1)},
        {"read_back": None},
    ],
)
def test_a_run_with_losses_is_not_clean_and_says_so(changes: dict[str, object]) -> None:
    good, bad = (
        outcome("services3", {Fault.KILL: [1.0]}),
        outcome("services3", {Fault.KILL: [1.0]}, **changes),
    )
    assert good.is_clean
    assert not bad.is_clean
    assert failover.notes([good]) != failover.notes([bad])
    assert failover.notes([bad])[0] in failover.markdown("c", [bad])


def test_peers_with_one_node_have_no_failover(capsys: pytest.CaptureFixture[str]) -> None:
    assert failover.main(["--peers", "services"]) == 2
    assert capsys.readouterr().err == "failover: services has no three nodes\n"


def test_every_shape_of_ours_runs_beside_kafka_if_none_is_named() -> None:
    three = ["combined3", "services3", "kafka3"]
    assert failover._parser().parse_args([]).peers.split(",") == three
    restarting = restart._parser().parse_args([])
    assert restarting.peers.split(",") == ["combined", "services", "kafka"]
    assert restarting.growth_peers.split(",") == three


def test_faults_come_in_order() -> None:
    planned = failover.plan_faults(kills=2, pauses=1, terminations=1)
    assert planned == [Fault.KILL, Fault.KILL, Fault.PAUSE, Fault.TERMINATE]


def test_a_partition_that_ends_too_early_is_lost_data() -> None:
    check_ends({0: 5, 1: 7}, {0: 6, 1: 9}, more=1)
    check_ends({0: 5}, {0: 5}, more=0)
    with pytest.raises(DataLost, match=r"1 partitions are short.*\{1: \(7, 7\)\}"):
        check_ends({0: 5, 1: 7}, {0: 6, 1: 7}, more=1)
    with pytest.raises(DataLost, match=r"\{0: \(5, None\)\}"):
        check_ends({0: 5}, {}, more=0)


def test_disk_is_needed_for_the_largest_peer_only() -> None:
    one, three = make_breakable_peer("services"), make_breakable_peer("kafka3")
    assert restart.needed_bytes([one, one], 10**9) == 10**9 + restart.DISK_SLACK_BYTES
    assert restart.needed_bytes([one, three], 10**9) == 3 * 10**9 + restart.DISK_SLACK_BYTES


def test_restart_and_growth_in_tables() -> None:
    shared: dict[str, Any] = {"version": "v", "partitions": 1000, "idle_bytes": 200 * 10**6}
    restarted = [
        RestartResult(
            peer=peer, loaded_bytes=10**10, load_s=30.0, serve_s=(2.0, 6.0, 3.0), **shared
        )
        for peer in ("services", "kafka")
    ]
    grown = [
        GrowthResult(
            peer="services3", replication=3, mb_per_s=100.4, requests_per_s=6125.0, p99_us=9000.0,
            loaded_bytes=None, **shared,
        )
    ]  # fmt: skip
    lines = restart.restart_table(restarted)
    assert lines[0] == [
        "services", "1,000", "10.0", "3.00 (< 5: reached)", "6.00 (< 5: missed)", "200",
    ]  # fmt: skip
    assert lines[1][3:5] == ["3.00", "6.00"]
    assert restart.growth_table(grown) == [
        ["1,000", "services3", "3", "100", "6,125", "9,000", "200", "-"]
    ]
    assert len(restart.growth_table(grown)[0]) == len(restart.GROWTH_HEADER)
    text = restart.markdown("command", restarted, grown, ["restart of kafka: DataLost: 1"])
    assert "| services | 1,000 |" in text
    assert "- restart of kafka: DataLost: 1" in text


def test_growth_uses_acks_all_with_several_replicas() -> None:
    assert (workload_of(10, 1).acks, workload_of(10, 1).nodes) == (1, 1)
    assert (workload_of(5000, 3).acks, workload_of(5000, 3).nodes) == (-1, 3)


def _partition(number: int, replicas: tuple[int, ...], isr: set[int]) -> PartitionView:
    return PartitionView(
        partition=number, leader=1, leader_epoch=0, replicas=replicas, isr=frozenset(isr),
        offline=frozenset(),
    )  # fmt: skip


def test_a_node_is_back_when_it_is_in_every_isr() -> None:
    parts = {0: _partition(0, (1, 2), {1, 2}), 1: _partition(1, (1, 2), {2})}
    assert is_in_every_isr(2, parts)
    assert not is_in_every_isr(1, parts)
    assert not is_in_no_isr(1, parts)
    assert is_in_no_isr(3, parts)
