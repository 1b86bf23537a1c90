"""Topics with three replicas: acknowledged records are on the whole ISR, and are not read before."""

from __future__ import annotations

import signal
import time

import pytest

from highwater.kafka.error_codes import ErrorCode
from tests.cluster.replicated import ISR_S_MAX, SESSION_S
from tests.cluster.traffic import NumberedProducer, read_all
from tests.conformance.protocol.requests import (
    PRODUCE_VERSION,
    batch,
    batches_of,
    fetch,
    list_offset,
    produce_request,
)
from tests.support.cluster_view import PartitionView, is_whole, view, wait_for_view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.partition_logs import assert_identical_logs, end_offset
from tests.support.process import wait_until
from tests.support.replicated_cluster import ReplicatedCluster
from tests.support.wire import RawConnection, only

pytestmark = pytest.mark.etcd

FORMS = ("split", "mixed", "grpcio")
PARTITIONS = 3
LATEST = -1


def topic_of(
    cluster: ReplicatedCluster, name: str, *, min_isr: int = 2, partitions: int = 1
) -> str:
    return make_replicated_topic(
        cluster.bootstrap,
        name,
        partitions=partitions,
        configs={"min.insync.replicas": str(min_isr)},
    )


def partition_of(cluster: ReplicatedCluster, topic: str) -> PartitionView:
    return view(cluster.bootstrap, topic)[0]


def write(
    cluster: ReplicatedCluster, topic: str, value: bytes, *, acks: int, timeout_ms: int = 5_000
) -> tuple[int, int]:
    """Sends one record once; returns (error code, offset)."""
    with RawConnection.to(cluster.bootstrap) as connection:
        request = produce_request(topic, {0: batch([value])}, acks=acks)
        request.timeout_ms = timeout_ms
        reply = connection.ask(request, PRODUCE_VERSION)
    part = only(only(reply.responses).partition_responses)
    return part.error_code, part.base_offset


def high_watermark(cluster: ReplicatedCluster, topic: str) -> int:
    with RawConnection.to(cluster.bootstrap) as connection:
        part = list_offset(connection, topic, LATEST)
    assert part.error_code == 0
    return part.offset


@pytest.mark.quick_forms("grpcio")
@pytest.mark.timeout(90)
def test_acknowledged_records_are_the_same_bytes_on_every_node(whole: ReplicatedCluster):
    topic = topic_of(whole, "bytes", partitions=PARTITIONS)
    producer = NumberedProducer(whole.bootstrap, topic)
    producer.send(2_000)
    producer.flush()
    assert not producer.errors
    sizes = [assert_identical_logs(whole, topic, partition) for partition in range(PARTITIONS)]
    assert all(size > 1_000 for size in sizes)
    found = read_all(whole.bootstrap, topic, PARTITIONS)
    assert sorted(found) == sorted(producer.acknowledged)


@pytest.mark.timeout(90)
def test_acks_all_means_that_every_member_of_the_isr_has_it(whole: ReplicatedCluster):
    topic = topic_of(whole, "acks")
    for number in range(20):
        code, offset = write(whole, topic, b"%d" % number, acks=-1)
        assert (code, offset) == (0, number)
        ends = [end_offset(whole.data_dir(node) / f"{topic}-0") for node in whole.node_ids]
        assert min(ends) > number, "on disk everywhere before the answer"


@pytest.mark.timeout(120)
def test_the_high_watermark_waits_for_the_followers(whole: ReplicatedCluster):
    topic = topic_of(whole, "watermark", min_isr=1)
    assert write(whole, topic, b"first", acks=-1) == (0, 0)
    leader = partition_of(whole, topic).leader
    followers = [node for node in whole.node_ids if node != leader]
    for node in followers:
        whole.pause(f"node-{node}")
    begun = time.monotonic()
    assert write(whole, topic, b"second", acks=1) == (0, 1)
    # Until they are fenced the followers are in the ISR: records that they lack are not committed.
    assert high_watermark(whole, topic) == 1
    with RawConnection.to(whole.bootstrap) as connection:
        assert batches_of(fetch(connection, topic, 1, max_wait_ms=200)) == []
    assert time.monotonic() - begun < SESSION_S, "too slow to show anything"
    for node in followers:
        whole.resume(f"node-{node}")
    wait_until(
        lambda: high_watermark(whole, topic) == 2, timeout_s=10, what="a high watermark of 2"
    )


@pytest.mark.timeout(120)
def test_too_few_in_sync_refuse_acks_all_and_nothing_else(whole: ReplicatedCluster):
    topic = topic_of(whole, "few")
    assert write(whole, topic, b"with all", acks=-1) == (0, 0)
    leader = partition_of(whole, topic).leader
    others = [node for node in whole.node_ids if node != leader]
    whole.kill_nodes(others)
    wait_for_view(
        whole.bootstrap,
        topic,
        lambda parts: parts[0].isr == {leader} and parts[0].leader == leader,
        timeout_s=ISR_S_MAX,
        what="an ISR of the leader alone",
    )
    appended = 1
    # The gateway may hear of the ISR before the leader, which then appends, and waits in vain.
    while (code := write(whole, topic, b"alone", acks=-1)[0]) == ErrorCode.REQUEST_TIMED_OUT:
        appended += 1
        assert appended < 4, "the leader does not hear of the ISR"
    assert code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert write(whole, topic, b"alone", acks=1) == (0, appended), "only acks=all asks for more"
    assert high_watermark(whole, topic) == 1, "and it is not committed (KIP-966)"
    whole.restart_node(others[0])
    wait_until(
        lambda: high_watermark(whole, topic) == appended + 1,
        timeout_s=ISR_S_MAX,
        what="two in sync",
    )
    assert write(whole, topic, b"with two", acks=-1) == (0, appended + 1)


@pytest.mark.timeout(120)
def test_the_isr_shrinks_and_grows_again_in_metadata(whole: ReplicatedCluster):
    topic = topic_of(whole, "isr")
    before = partition_of(whole, topic)
    victim = next(node for node in before.replicas if node != before.leader)
    whole.pause(f"node-{victim}")
    shrunk = wait_for_view(
        whole.bootstrap,
        topic,
        lambda parts: victim not in parts[0].isr,
        timeout_s=ISR_S_MAX,
        what="a smaller ISR",
    )[0]
    assert shrunk.isr == set(before.replicas) - {victim}
    assert shrunk.leader == before.leader
    assert shrunk.leader_epoch == before.leader_epoch, "who leads has not changed"
    for number in range(5):
        assert write(whole, topic, b"%d" % number, acks=-1) == (0, number)
    whole.resume(f"node-{victim}")
    wait_for_view(whole.bootstrap, topic, is_whole, timeout_s=ISR_S_MAX, what="the full ISR")
    assert_identical_logs(whole, topic, 0)


@pytest.mark.parametrize(
    ("sign", "seconds_max"), [(signal.SIGKILL, 4.0), (signal.SIGTERM, 4.0)], ids=["kill", "term"]
)
@pytest.mark.timeout(120)
def test_another_replica_leads_within_seconds(
    whole: ReplicatedCluster, sign: signal.Signals, seconds_max: float
):
    topic = topic_of(whole, "failover")
    assert write(whole, topic, b"before", acks=-1) == (0, 0)
    before = partition_of(whole, topic)
    whole.expect_end(before.leader)
    process = whole.process(f"node-{before.leader}")
    begun = time.monotonic()
    if sign == signal.SIGKILL:
        process.kill()
    else:
        assert process.stop() == 0
    while (told := write(whole, topic, b"after", acks=-1))[0] != 0:
        assert time.monotonic() - begun < seconds_max, f"still {told}"
    elapsed_s = time.monotonic() - begun
    print(f"\n{sign.name} to the next acknowledged write: {elapsed_s:.2f} s")
    assert elapsed_s < seconds_max
    after = partition_of(whole, topic)
    assert after.leader in set(before.replicas) - {before.leader}
    assert after.leader_epoch > before.leader_epoch
