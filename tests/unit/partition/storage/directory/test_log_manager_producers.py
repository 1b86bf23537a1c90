"""Limits of idempotent producers per node, and the log line for evictions."""

from pathlib import Path

import structlog
from structlog.testing import capture_logs

from highwater.partition.core.producer_budget import ProducerLimits
from tests.support.log_batches import append, make_batch
from tests.unit.partition.storage.directory.test_log_manager import Node, topic


def by_producers(first: int, count: int) -> list[bytearray]:
    return [
        make_batch(producer_id=pid, producer_epoch=0, base_sequence=0, timestamps=(0,))
        for pid in range(first, first + count)
    ]


def test_producers_are_limited_for_each_partition_and_for_the_node(tmp_path: Path) -> None:
    limits = ProducerLimits(expiration_ms=1 << 50, per_partition=20, per_node=30)
    node = Node(tmp_path / "a", producer_limits=limits)
    small, _ = node.manager.open_log(topic(), 0)
    large, _ = node.manager.open_log(topic(), 1)
    append(small, *by_producers(0, 8), epoch=0)
    append(large, *by_producers(100, 25), epoch=0)
    assert (len(small.producers.states), len(large.producers.states)) == (8, 20)
    node.manager.open_log(topic(), 2)
    other, _ = node.manager.open_log(topic(), 2)
    append(other, *by_producers(200, 9), epoch=0)
    assert len(small.producers.states) == 8
    assert len(other.producers.states) == 9
    assert node.manager.producers.count <= 30
    large.truncate_to(12)
    count = sum(len(log.producers.states) for log in (small, large, other))
    assert node.manager.producers.count == count <= 30
    node.manager.delete_log(other)
    assert node.manager.producers.count == count - 9
    assert node.manager.close() == []
    node = Node(tmp_path / "a", producer_limits=limits)
    assert node.manager.producers.count == count - 9
    node.manager.close()
    node = Node(tmp_path / "a", producer_limits=ProducerLimits(per_node=5))
    assert node.manager.producers.count <= 5
    node.manager.close()


def test_evictions_are_logged_once_per_interval(tmp_path: Path) -> None:
    node = Node(tmp_path / "a", producer_limits=ProducerLimits(per_partition=5))
    log, _ = node.manager.open_log(topic(), 0)
    node.manager.open_log(topic(), 1)
    with capture_logs() as told:
        maintenance = node.maintenance(structlog.get_logger())
        node.run(maintenance.evictions())
        assert told == []
        append(log, *by_producers(0, 7), epoch=0)
        node.run(maintenance.evictions())
        node.run(maintenance.evictions())
        append(log, *by_producers(100, 1))
        node.run(maintenance.evictions())
    assert [(line["event"], line["count"], line["total"]) for line in told] == [
        ("producers_evicted", 2, 2),
        ("producers_evicted", 1, 3),
    ]
    assert told[0]["most_of"] == Path(log.directory).name
    node.manager.close()


def test_producers_expire(tmp_path: Path) -> None:
    node = Node(tmp_path / "a")
    log, _ = node.manager.open_log(topic(), 0)
    batch = make_batch(
        producer_id=5, producer_epoch=0, base_sequence=0, timestamps=(node.clock.now_ms,)
    )
    append(log, batch, epoch=0)
    node.run(node.maintenance().producers())
    assert 5 in log.producers.states
    node.clock.now_ms += 24 * 3600 * 1000
    node.run(node.maintenance().producers())
    assert 5 not in log.producers.states
    node.manager.close()


def test_producers_are_forgotten_after_the_node_s_present_time(tmp_path: Path) -> None:
    node = Node(tmp_path / "a", producer_limits=ProducerLimits(per_partition=5))
    log, _ = node.manager.open_log(topic(), 0)
    assert log.config.producer_id_expiration_ms == 24 * 3600 * 1000
    node.manager.set_broker_configs({"producer.id.expiration.ms": "5000"})
    node.manager.reconfigure(log, topic())
    assert log.config.producer_id_expiration_ms == 5_000
    later, _ = node.manager.open_log(topic(), 1)
    assert (later.config.producer_id_expiration_ms, later.config.producers_max) == (5_000, 5)
    node.manager.set_broker_configs({})
    node.manager.reconfigure(log, topic())
    assert log.config.producer_id_expiration_ms == 24 * 3600 * 1000
    assert log.config.producers_max == 5
    node.manager.close()
