"""Bit rot of a closed segment is repaired in place, from other in-sync replicas (R13)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from highwater.partition.storage.names import DAMAGE
from tests.cluster.replicated import ISR_S_MAX, in_form, running
from tests.cluster.test_damaged_header import CONFIGS, SHAPE, VALUES, damage, read, write
from tests.support.cluster_view import view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.partition_logs import assert_identical_logs, headers, segments
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = pytest.mark.etcd

HEALED_S_MAX = 20.0
SCRUBBING = Shape(
    controllers=1,
    etcd_members=1,
    settings={
        "controller": SHAPE.settings["controller"],
        "partition": {"log_scrub_interval_ms": "300"},
    },
)
EVERYTHING = list(range(len(VALUES)))


@pytest.fixture(params=["split", pytest.param("grpcio", marks=pytest.mark.full)])
def scrubbed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ReplicatedCluster]:
    with running(tmp_path, in_form(SCRUBBING, request.param)) as made:
        yield made


def flip(segment: Path, batch: int, at: int = 100_000) -> None:
    """Changes a bit in the records of a batch."""
    batches = headers(segment.read_bytes())
    position = sum(header.batch_length + 12 for header in batches[:batch]) + at
    with segment.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 4]))


def directory(cluster: ReplicatedCluster, node: int, topic: str) -> Path:
    return cluster.data_dir(node) / f"{topic}-0"


def told(cluster: ReplicatedCluster, node: int, event: str) -> list[str]:
    return cluster.process(f"node-{node}").lines_with(event)


def wait_healed(cluster: ReplicatedCluster, node: int, count: int = 1) -> None:
    wait_until(
        lambda: len(told(cluster, node, "damage_healed")) >= count,
        timeout_s=HEALED_S_MAX,
        what=f"{count} ranges healed on node {node}",
    )


def test_two_replicas_with_another_bad_batch_each_end_whole(scrubbed: ReplicatedCluster) -> None:
    """The leader and a follower: no election, nobody leaves the ISR, no byte differs."""
    topic = make_replicated_topic(scrubbed.bootstrap, "rot", partitions=1, configs=CONFIGS)
    write(scrubbed.bootstrap, VALUES, topic)
    before = view(scrubbed.bootstrap, topic)[0]
    follower = next(node for node in before.replicas if node != before.leader)
    assert_identical_logs(scrubbed, topic, 0)
    flip(segments(directory(scrubbed, before.leader, topic))[0], 1)
    flip(segments(directory(scrubbed, follower, topic))[1], 0)
    damage(segments(directory(scrubbed, follower, topic))[0], 2, "length")
    wait_healed(scrubbed, before.leader)
    wait_healed(scrubbed, follower, 2)
    assert_identical_logs(scrubbed, topic, 0)
    after = view(scrubbed.bootstrap, topic)[0]
    assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch)
    assert after.isr == set(before.replicas)
    assert read(scrubbed.bootstrap, 0, topic) == (EVERYTHING, KafkaError._PARTITION_EOF)
    for node in (before.leader, follower):
        assert not (directory(scrubbed, node, topic) / DAMAGE).exists()
        assert told(scrubbed, node, "damaged_log_set_aside") == []


def test_a_leader_with_a_bad_batch_keeps_every_record_when_its_peer_was_just_killed(
    scrubbed: ReplicatedCluster,
) -> None:
    """The peer is dead and not fenced yet; the leader must not delete its log.

    The missing range comes from the peer when it is back.
    """
    topic = make_replicated_topic(
        scrubbed.bootstrap, "rot", partitions=1, replication_factor=2, configs=CONFIGS
    )
    write(scrubbed.bootstrap, VALUES, topic)
    before = view(scrubbed.bootstrap, topic)[0]
    peer = next(node for node in before.replicas if node != before.leader)
    assert_identical_logs(scrubbed, topic, 0, before.replicas)
    leader_directory = directory(scrubbed, before.leader, topic)
    kept = [path.stat().st_ino for path in segments(leader_directory)]
    scrubbed.kill_node(peer)
    flip(segments(leader_directory)[0], 1)
    wait_until(
        lambda: told(scrubbed, before.leader, "log_damaged"),
        timeout_s=HEALED_S_MAX,
        what="the damage to be found",
    )

    def is_alone() -> bool:
        assert [path.stat().st_ino for path in segments(leader_directory)] == kept
        alone = view(scrubbed.bootstrap, topic)[0]
        assert alone.leader == before.leader
        return alone.isr == {before.leader}

    wait_until(is_alone, timeout_s=ISR_S_MAX, what="the dead node to leave the ISR")
    first_bad = headers(segments(leader_directory)[0].read_bytes())[1].base_offset
    sound = [offset for offset in EVERYTHING if offset != first_bad]
    assert read(scrubbed.bootstrap, first_bad + 1, topic)[0] == sound[first_bad:]
    scrubbed.restart_node(peer)
    wait_healed(scrubbed, before.leader)
    wait_until(scrubbed.is_whole, timeout_s=ISR_S_MAX, what="full ISRs")
    assert_identical_logs(scrubbed, topic, 0, before.replicas)
    assert view(scrubbed.bootstrap, topic)[0].leader == before.leader
    assert read(scrubbed.bootstrap, 0, topic) == (EVERYTHING, KafkaError._PARTITION_EOF)
