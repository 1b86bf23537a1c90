"""The node's metrics come from the live objects."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, TopicId
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.groups.core.state import GroupState
from highwater.partition.groups.core.values import GroupKey
from highwater.partition.groups.runtime import GroupStats
from highwater.partition.metrics import node as module
from highwater.partition.metrics.node import PartitionCollector
from highwater.partition.node.repairs import RepairStats
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.log import PartitionLog
from highwater.runtime.clock import SystemClock
from tests.unit.partition.data_plane.roles import NODE, lead


def make_parts(path: Path) -> Any:
    log = PartitionLog.open(
        path, topic="orders", partition=3, config=LogConfig(), clock=SystemClock()
    )
    replica = PartitionReplica(
        node=NODE,
        topic_id=TopicId(b"metrics-topic-16"),
        topic_name="orders",
        partition=3,
        log=log,
        log_dir=0,
        policy=AppendPolicy(),
        clock=SystemClock(),
        on_log_failure=lambda _replica, _error: None,
    )
    lead(replica, 0)
    replica.core.high_watermark = 40
    stats = GroupStats(
        groups=dict.fromkeys(GroupState, 2),
        members=5,
        offsets=1,
        parked=0,
        shards_active=1,
        shards_loading=0,
    )
    commits = [
        (GroupKey(DEFAULT_INSTANCE, "readers"), "orders", 3, 15),
        (GroupKey(DEFAULT_INSTANCE, "readers"), "elsewhere", 0, 1),
        (GroupKey(InstanceId("team"), "theirs"), "orders", 3, 15),
    ]
    of_instance = {DEFAULT_INSTANCE: [replica]}
    return {
        "plane": SimpleNamespace(
            replicas={(replica.topic_id, 3): replica},
            appended_bytes=100,
            fetched_bytes=30,
            waiting_fetches=4,
        ),
        "scrubber": SimpleNamespace(checked_bytes=70, damages=1),
        "producers": SimpleNamespace(count=12, evicted=3),
        "repairs": SimpleNamespace(
            stats=RepairStats(healed=2, replaced=3, waiting=5, not_healable=4)
        ),
        "replicas": SimpleNamespace(of_instance=lambda instance: iter(of_instance[instance])),
        "groups": [
            SimpleNamespace(stats=lambda: stats, committed_offsets=lambda: iter(commits)),
            SimpleNamespace(stats=lambda: stats, committed_offsets=lambda: iter(())),
        ],
    }


def test_offsets_sizes_groups_and_lag(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    registry.register(PartitionCollector(**make_parts(tmp_path / "orders-3")))
    where = {"topic": "orders", "partition": "3"}

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"highwater_partition_{name}", labels)

    assert value("high_watermark", **where) == 40
    assert value("log_end_offset", **where) == 0
    assert value("appended_bytes_total") == 100
    assert value("fetched_bytes_total") == 30
    assert value("waiting_fetches") == 4
    assert value("leaders") == 1
    assert value("scrubbed_bytes_total") == 70
    assert value("damages_found_total") == 1
    assert value("damaged_logs") == 0
    assert value("producer_ids") == 12
    assert value("producer_ids_evicted_total") == 3
    assert value("damages_healed_total") == 2
    assert value("damaged_replicas_replaced_total") == 3
    assert value("damaged_logs_not_healable") == 4
    assert value("group_members") == 10
    assert value("groups", state="stable") == 4
    assert value("group_lag", group="readers", **where) == 25
    assert value("group_lag", group="theirs", **where) is None, "of another instance"
    assert value("group_lag", group="readers", topic="elsewhere", partition="0") is None


def test_values_of_single_replicas_and_groups_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = make_parts(tmp_path)
    (replica,) = parts["plane"].replicas.values()
    parts["plane"].replicas = {(replica.topic_id, number): replica for number in range(5)}
    commits = [(GroupKey(DEFAULT_INSTANCE, f"g{n}"), "orders", 3, 15) for n in range(7)]
    parts["groups"][0].committed_offsets = lambda: iter(commits)
    monkeypatch.setattr(module, "SERIES_MAX", 4)
    families = {family.name: family for family in PartitionCollector(**parts).collect()}
    assert len(families["highwater_partition_log_end_offset"].samples) == 4
    assert len(families["highwater_partition_group_lag"].samples) == 4
    for name, left_out in (("replicas", 1), ("group_lags", 3)):
        (sample,) = families[f"highwater_partition_{name}_not_shown"].samples
        assert sample.value == left_out
