"""Partitions move to other nodes under load (KIP-455)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from highwater.embed.clients.kafka_client import BrokerError, KafkaClient, Reassignment
from highwater.kafka.error_codes import ErrorCode
from tests.cluster.replicated import FAST_SESSIONS, ISR_S_MAX
from tests.cluster.traffic import NumberedProducer, read_all
from tests.robustness.faults.checker import report, violations
from tests.robustness.faults.workload import Workload
from tests.support.cluster_view import Partitions, is_whole, view, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.partition_logs import assert_identical_logs
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = pytest.mark.etcd

SHAPE = Shape(nodes=4, controllers=1, etcd_members=1, settings={"controller": FAST_SESSIONS})
MOVE_S_MAX = 45.0
PARTITIONS = 3
STEADY = 40
"""Acknowledgements of each partition before and after a move."""


@pytest.fixture
def loaded(whole: ReplicatedCluster) -> Iterator[Workload]:
    """A topic with three replicas on four nodes, written and read all the time."""
    topic = make_replicated_topic(
        whole.bootstrap, "moving", partitions=PARTITIONS, configs={"min.insync.replicas": "2"}
    )
    workload = Workload(whole.bootstraps, topic, partitions=PARTITIONS, group=f"of-{topic}")
    try:
        workload.start()
        workload.wait_for_progress(STEADY, timeout_s=60)
        yield workload
    finally:
        workload.abandon()


def reassign(
    cluster: ReplicatedCluster, topic: str, replicas: Mapping[int, Sequence[int] | None]
) -> None:
    with KafkaClient(cluster.bootstrap) as client:
        client.reassign(topic, replicas)


def moving(cluster: ReplicatedCluster, topic: str) -> dict[int, Reassignment]:
    with KafkaClient(cluster.bootstrap) as client:
        return {n: one for (name, n), one in client.reassignments().items() if name == topic}


def wait_moved(
    cluster: ReplicatedCluster, topic: str, target: Mapping[int, Sequence[int]]
) -> Partitions:
    def there(parts: Partitions) -> bool:
        return is_whole(parts) and all(
            parts[number].replicas == tuple(nodes) for number, nodes in target.items()
        )

    found = wait_for_view(
        cluster.bootstrap, topic, there, timeout_s=MOVE_S_MAX, what=f"replicas {target}"
    )
    assert moving(cluster, topic) == {}
    return found


def judge(cluster: ReplicatedCluster, workload: Workload) -> None:
    """Asserts that no record is lost, duplicated or refused, and all replicas have the same bytes."""
    history = workload.finish(timeout_s=90)
    print(f"\n{workload.summary()}")
    found = violations(history)
    assert not found, report(found)
    assert history.failed_count() == 0
    assert not any(history.errors.values()), dict(history.errors)
    for number, part in view(cluster.bootstrap, workload.topic).items():
        assert_identical_logs(cluster, workload.topic, number, part.replicas)


def wait_gone(cluster: ReplicatedCluster, node: int, topic: str, partition: int) -> None:
    directory = cluster.data_dir(node) / f"{topic}-{partition}"
    wait_until(lambda: not directory.exists(), timeout_s=ISR_S_MAX, what=f"no {directory}")


def others_first(parts: Partitions, everybody: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """New replicas without each partition's leader; the node without a replica comes first."""
    return {
        number: (
            *(set(everybody) - set(part.replicas)),
            *(node for node in part.replicas if node != part.leader),
        )
        for number, part in parts.items()
    }


@pytest.mark.timeout(240)
def test_leaders_move_away_under_load(whole: ReplicatedCluster, loaded: Workload) -> None:
    before = view(whole.bootstrap, loaded.topic)
    target = others_first(before, whole.node_ids)
    reassign(whole, loaded.topic, target)
    after = wait_moved(whole, loaded.topic, target)
    for number, part in after.items():
        gone = before[number].leader
        assert part.leader != gone
        assert part.leader_epoch > before[number].leader_epoch
        wait_gone(whole, gone, loaded.topic, number)
    loaded.wait_for_progress(STEADY, timeout_s=60)
    # And back, to nodes that have deleted their logs.
    home = {number: part.replicas for number, part in before.items()}
    reassign(whole, loaded.topic, home)
    wait_moved(whole, loaded.topic, home)
    loaded.wait_for_progress(STEADY, timeout_s=60)
    judge(whole, loaded)


@pytest.mark.timeout(240)
def test_a_node_that_is_added_is_killed_on_the_way(
    whole: ReplicatedCluster, loaded: Workload
) -> None:
    before = view(whole.bootstrap, loaded.topic)
    target = others_first(before, whole.node_ids)
    joining = {number: nodes[0] for number, nodes in target.items()}
    victim = joining[0]
    whole.kill_node(victim)
    reassign(whole, loaded.topic, target)
    here = {number for number, node in joining.items() if node == victim}
    wait_until(lambda: set(moving(whole, loaded.topic)) == here, timeout_s=MOVE_S_MAX, what="moves")
    told = moving(whole, loaded.topic)[0]
    assert (told.adding, told.removing) == ((victim,), (before[0].leader,))
    assert set(told.replicas) == {*before[0].replicas, victim}
    loaded.wait_for_progress(STEADY, timeout_s=60)
    reassign(whole, loaded.topic, {0: None})
    assert 0 not in moving(whole, loaded.topic), "called back"
    assert set(view(whole.bootstrap, loaded.topic)[0].replicas) == set(before[0].replicas)
    with pytest.raises(BrokerError) as refused:
        reassign(whole, loaded.topic, {0: None})
    assert refused.value.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    whole.restart_node(victim)
    wait_moved(whole, loaded.topic, {n: nodes for n, nodes in target.items() if n != 0})
    loaded.wait_for_progress(STEADY, timeout_s=60)
    judge(whole, loaded)


@pytest.mark.timeout(180)
def test_one_replica_moves_grows_and_shrinks(whole: ReplicatedCluster) -> None:
    topic = make_replicated_topic(whole.bootstrap, "single", partitions=1, replication_factor=1)
    producer = NumberedProducer(whole.bootstrap, topic)
    (first,) = view(whole.bootstrap, topic)[0].replicas
    a, b, c = (node for node in whole.node_ids if node != first)
    for replicas in ((a,), (b, a, c), (c, b), (first,)):
        producer.send(300)
        reassign(whole, topic, {0: replicas})
        producer.send(300)
        (after,) = wait_moved(whole, topic, {0: replicas}).values()
        assert after.leader in replicas
    producer.flush()
    assert not producer.errors
    found = read_all(whole.bootstrap, topic, 1)
    assert len(found) == len(set(found)), "none twice"
    assert set(found) == producer.acknowledged
    for node in (a, b, c):
        wait_gone(whole, node, topic, 0)


@pytest.mark.timeout(180)
def test_a_replica_removed_while_its_node_was_down_is_set_aside(whole: ReplicatedCluster) -> None:
    topic = make_replicated_topic(whole.bootstrap, "away", partitions=1, replication_factor=2)
    producer = NumberedProducer(whole.bootstrap, topic)
    producer.send(100)
    producer.flush()
    before = view(whole.bootstrap, topic)[0]
    gone = next(node for node in before.replicas if node != before.leader)
    whole.kill_node(gone)
    reassign(whole, topic, {0: (before.leader,)})
    wait_for_view(
        whole.bootstrap,
        topic,
        lambda parts: parts[0].replicas == (before.leader,),
        timeout_s=MOVE_S_MAX,
        what="one replica",
    )
    directory = whole.data_dir(gone)
    assert (directory / f"{topic}-0").exists(), "nobody was there to delete it"
    whole.restart_node(gone)
    wait_gone(whole, gone, topic, 0)
    strays = [path.name for path in directory.iterdir() if path.name.endswith("-stray")]
    assert any(name.startswith(f"{topic}-0.") for name in strays), "kept for people to look at"
    reassign(whole, topic, {0: before.replicas})
    wait_moved(whole, topic, {0: before.replicas})
    assert set(read_all(whole.bootstrap, topic, 1)) == producer.acknowledged


def refusal(act: Callable[[], None]) -> int:
    with pytest.raises(BrokerError) as refused:
        act()
    return int(refused.value.code)


@pytest.mark.timeout(120)
def test_invalid_reassignments_are_refused(whole: ReplicatedCluster) -> None:
    topic = make_replicated_topic(whole.bootstrap, "refused", partitions=1, replication_factor=1)
    bad = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    for replicas in ((), (1, 1), (1, 9)):
        assert refusal(lambda nodes=replicas: reassign(whole, topic, {0: nodes})) == bad
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(lambda: reassign(whole, topic, {7: (1,)})) == unknown
    assert refusal(lambda: reassign(whole, "nothing", {0: (1,)})) == unknown


@pytest.mark.timeout(180)
def test_partitions_are_added_under_load(whole: ReplicatedCluster) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    topic = make_replicated_topic(whole.bootstrap, "growing", partitions=1)
    producer = NumberedProducer(whole.bootstrap, topic)
    admin = AdminClient({"bootstrap.servers": whole.bootstrap})
    producer.send(500)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    producer.send(500)
    placed = [[4, 2, 1]]
    admin.create_partitions([NewPartitions(topic, 4, placed)])[topic].result(30)
    producer.send(500)
    parts = wait_for_view(
        whole.bootstrap,
        topic,
        lambda parts: len(parts) == 4 and is_whole(parts),
        timeout_s=ISR_S_MAX,
        what="four partitions in sync",
    )
    assert parts[3].replicas == (4, 2, 1)
    assert {len(part.replicas) for part in parts.values()} == {3}
    to_the_last = NumberedProducer(whole.bootstrap, topic, partition=3)
    to_the_last.send(100)
    to_the_last.flush()
    producer.flush()
    assert not producer.errors
    found = read_all(whole.bootstrap, topic, 4)
    assert len(found) == len(producer.acknowledged) + 100
    for number, part in parts.items():
        assert_identical_logs(whole, topic, number, part.replicas)
