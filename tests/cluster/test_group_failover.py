"""Group coordinators on three nodes are killed, stopped and paused; no acknowledged offset is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from highwater.model.ids import GROUP_METADATA_TOPIC
from highwater.model.partitioning import coordinator_partition
from tests.cluster.replicated import ISR_S_MAX
from tests.support.cluster_view import PartitionView, view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until
from tests.support.replicated_cluster import ReplicatedCluster

pytestmark = [pytest.mark.etcd, pytest.mark.timeout(150)]

FORMS = ("split", "mixed", "grpcio")
COMPLAINTS = ("group_shard_crashed", "group_load_failed", "group_task_failed")
RECOVERY_S_MAX = 30.0
COMMITS = 15


@pytest.fixture(scope="module", autouse=True)
def no_complaints(replicated: ReplicatedCluster) -> Iterator[None]:
    yield
    for name in replicated.names:
        assert list(replicated.process(name).lines_with(*COMPLAINTS)) == []


@pytest.fixture(scope="module")
def topic(replicated: ReplicatedCluster) -> str:
    return make_replicated_topic(replicated.bootstrap, "orders", partitions=1)


class Group:
    """A client of one group, which repeats refused calls and checks the offsets that it gets."""

    def __init__(
        self, cluster: ReplicatedCluster, topic: str, group: str, **settings: object
    ) -> None:
        self.cluster = cluster
        self.topic = topic
        self.group = group
        self.known = -1
        """The newest offset that was acknowledged or read."""
        self.next_offset = 0
        self.refusals: list[str] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "socket.timeout.ms": 3_000,
                "reconnect.backoff.max.ms": 500,
                **settings,
            }
        )

    def close(self) -> None:
        self.consumer.close()

    @property
    def partition(self) -> PartitionView:
        """The partition of the group metadata topic that has this group."""
        partitions = view(self.cluster.bootstrap, GROUP_METADATA_TOPIC)
        return partitions[coordinator_partition(self.group, len(partitions))]

    def commit(self) -> None:
        """Commits the next offset; repeats it until it is acknowledged."""
        offset = self.next_offset
        self.next_offset += 1
        place = TopicPartition(self.topic, 0, offset)

        def commit() -> None:
            (done,) = self.consumer.commit(offsets=[place], asynchronous=False)
            if done.error is not None:
                raise KafkaException(done.error)

        self._until_told(commit, f"a commit of {offset}")
        self.known = offset

    def read(self) -> int:
        """Reads the committed offset; asserts that it is not older than the known one."""
        found: list[int] = []

        def read() -> None:
            (place,) = self.consumer.committed([TopicPartition(self.topic, 0)], timeout=3)
            if place.error is not None:
                raise KafkaException(place.error)
            found.append(place.offset)

        self._until_told(read, "an answer")
        assert found[-1] >= self.known, f"offsets went back from {self.known} to {found[-1]}"
        self.known = found[-1]
        return found[-1]

    def _until_told(self, ask: Callable[[], None], what: str) -> None:
        end = time.monotonic() + RECOVERY_S_MAX
        while True:
            try:
                ask()
            except KafkaException as error:
                self.refusals.append(str(error))
                assert time.monotonic() < end, f"no {what}: {self.refusals[-5:]}"
                time.sleep(0.05)
            else:
                return


@pytest.fixture
def join(whole: ReplicatedCluster, topic: str) -> Iterator[Callable[..., Group]]:
    groups: list[Group] = []

    def join(name: str, **settings: object) -> Group:
        groups.append(Group(whole, topic, name, **settings))
        return groups[-1]

    yield join
    for group in groups:
        group.close()


def kill(cluster: ReplicatedCluster, node: int) -> None:
    cluster.kill_node(node)


def end(cluster: ReplicatedCluster, node: int) -> None:
    assert cluster.terminate_node(node) == 0


def pause(cluster: ReplicatedCluster, node: int) -> None:
    cluster.pause(f"node-{node}")


@pytest.mark.parametrize("fault", [kill, end, pause], ids=["kill", "term", "pause"])
def test_acknowledged_offsets_outlive_their_coordinator(whole, join, fault):
    group = join(f"readers-{fault.__name__}")
    for _ in range(COMMITS):
        group.commit()
    before = group.partition
    assert before.isr == set(whole.node_ids), "the topic of groups has three replicas"
    fault(whole, before.leader)
    begun = time.monotonic()
    assert group.read() == COMMITS - 1
    group.commit()
    elapsed_s = time.monotonic() - begun
    print(f"\n{fault.__name__} to the next acknowledged commit: {elapsed_s:.2f} s")
    for _ in range(COMMITS):
        group.commit()
        group.read()
    after = group.partition
    assert after.leader != before.leader
    assert after.leader_epoch > before.leader_epoch
    if fault is pause:
        whole.resume(f"node-{before.leader}")
    else:
        whole.restart_node(before.leader)
    for _ in range(COMMITS):
        group.commit()
        assert group.read() == group.next_offset - 1
    other = join(group.group)
    assert other.read() == group.known


def test_an_assignment_is_read_although_its_coordinator_dies_before_it_tells_the_offset(
    whole, join
):
    """librdkafka must not be told what it does not ask again after: it would read nothing any more."""
    first = join("first")
    first.commit()  # Makes the topic of groups.
    leader = view(whole.bootstrap, first.topic)[0].leader
    group = next(
        group
        for group in (join(f"assigned-{number}") for number in range(20))
        if group.partition.leader != leader
    )
    producer = Producer({"bootstrap.servers": whole.bootstrap})
    producer.produce(group.topic, b"value", partition=0)
    assert producer.flush(RECOVERY_S_MAX) == 0
    group.commit()  # Offset 0. It also connects to the coordinator.
    coordinator = group.partition.leader
    whole.kill_node(coordinator)
    group.consumer.assign([TopicPartition(group.topic, 0)])

    def reads() -> bool:
        message = group.consumer.poll(0.1)
        return message is not None and message.error() is None

    try:
        wait_until(reads, timeout_s=RECOVERY_S_MAX, what="a record")
    finally:
        whole.restart_node(coordinator)


def test_coordinators_that_are_killed_one_after_the_other(whole, join):
    group = join("chased")
    for _ in range(3):
        for _ in range(COMMITS):
            group.commit()
        leader = group.partition.leader
        whole.kill_node(leader)
        assert group.read() == group.next_offset - 1
        group.commit()
        whole.restart_node(leader)
        wait_until(whole.is_whole, timeout_s=ISR_S_MAX, what="full ISRs")
    assert join("chased").read() == group.known


@pytest.mark.parametrize(
    ("fault", "protocol"),
    [
        pytest.param(kill, "classic", id="kill-classic", marks=pytest.mark.full),
        pytest.param(kill, "consumer", id="kill-consumer"),
        pytest.param(end, "classic", id="term-classic"),
        pytest.param(end, "consumer", id="term-consumer", marks=pytest.mark.full),
    ],
)
def test_members_stay_in_their_generation_when_the_coordinator_moves(whole, join, fault, protocol):
    """In the consumer protocol the coordinator has the session's length, 45 s."""
    assigned, revoked = [], []
    settings = {"session.timeout.ms": 30_000} if protocol == "classic" else {}
    name = f"members-{fault.__name__}-{protocol}"
    member = join(name, **{"group.protocol": protocol, **settings})
    member.consumer.subscribe(
        [member.topic],
        on_assign=lambda _, places: assigned.append(places),
        on_revoke=lambda _, places: revoked.append(places),
        on_lost=lambda _, places: revoked.append(places),
    )

    def poll() -> bool:
        message = member.consumer.poll(0.05)
        assert message is None or message.error() is None or message.error().retriable()
        return bool(assigned)

    wait_until(poll, timeout_s=RECOVERY_S_MAX, what="an assignment")
    member.commit()
    fault(whole, member.partition.leader)
    begun = time.monotonic()
    member.commit()
    while time.monotonic() - begun < 10:  # Three heartbeats, which are sent every 3 s.
        poll()
    member.commit()
    assert member.read() == 2
    assert (len(assigned), revoked) == (1, []), "nobody was asked to join again"
