"""The mirror between two real clusters: every record once, with all that it has, and what it tells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from highwater.spark.brokers import TopicMissing
from highwater.spark.jobs.mirror import moved_offsets
from highwater.spark.mirror.admission import LoopRefused
from highwater.spark.mirror.clients import CopyRefused, TargetClients
from highwater.spark.mirror.naming import Source, offsets_topic, transactional_id
from tests.conformance.topics import make_topic, unique_name
from tests.support.cluster import Cluster
from tests.support.embedded_cluster import EmbeddedCluster
from tests.support.mirrored_topics import (
    mirror_once,
    read,
    record,
    send,
    transaction,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TIMEOUT_S = 30
KEEP = {"retention.ms": "-1"}
"""Records are of years ago."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """The cluster that is copied to."""
    made = EmbeddedCluster(tmp_path_factory.mktemp("target"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return make_topic(cluster.bootstrap, unique_name("mirror"), partitions=3, configs=KEEP)


def committed(cluster: Cluster, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    places = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def test_a_copy_is_equal_and_goes_on(
    cluster: Cluster, target: EmbeddedCluster, spark: SparkSession, topic: str
) -> None:
    here, there = cluster.bootstrap, target.bootstrap
    send(here, topic, 0, [record(number) for number in range(100)])
    transaction(here, topic, 1, [record(number) for number in range(20)], commit=True)
    transaction(here, topic, 1, [record(number) for number in range(20, 30)], commit=False)
    send(here, topic, 1, [record(number) for number in range(30, 40)])
    transaction(here, topic, 2, [record(7)], commit=False)
    # A round takes 40 offsets of each partition, so that positions are in the middle.
    told = mirror_once(spark, here, there, topic, offsets_max=40)
    assert read(there, topic, 3) == read(here, topic, 3)
    assert (told.records, told.progress[-1].lag) == (130, 0)
    assert f"{topic} is made, partitions=3, retention.ms=-1" in told.sentences

    group = unique_name("reader")
    committed(cluster, group, topic, {0: 55, 1: 42, 2: 2})
    moved = moved_offsets(
        spark, Source(alias="east", bootstrap=here), TargetClients(bootstrap=there), {}, group
    )
    consumer = Consumer(
        {"bootstrap.servers": there, "group.id": "none", "isolation.level": "read_committed"}
    )
    first, end, nothing = sorted(moved.offsets, key=lambda each: each.partition)
    assert first.is_exact
    consumer.assign([TopicPartition(topic, 0, first.offset)])
    message = consumer.poll(TIMEOUT_S)
    assert (message.timestamp()[1], message.value()) == (record(55).time_ms, record(55).value)
    consumer.close()
    assert (end.is_exact, nothing.is_exact, nothing.offset) == (True, True, 0)

    # Nothing twice; a partition that is new, and what has come.
    admin = AdminClient({"bootstrap.servers": here})
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(TIMEOUT_S)
    for number in range(4):
        send(here, topic, number, [record(500 + number)])
    told = mirror_once(spark, here, there, topic, compression="zstd")
    assert read(there, topic, 4) == read(here, topic, 4)
    assert told.records == 4
    assert f"{topic} has 4 partitions now" in told.sentences
    assert mirror_once(spark, here, there, topic).records == 0


@pytest.mark.full
def test_what_is_gone_and_topics_that_were_made_anew(
    cluster: Cluster, target: EmbeddedCluster, spark: SparkSession
) -> None:
    here, there = cluster.bootstrap, target.bootstrap
    topic = make_topic(here, unique_name("gone"), configs=KEEP)
    send(here, topic, 0, [record(number) for number in range(5)])
    mirror_once(spark, here, there, topic)
    send(here, topic, 0, [record(number) for number in range(5, 10)])
    admin = AdminClient({"bootstrap.servers": here})
    for done in admin.delete_records([TopicPartition(topic, 0, 8)]).values():
        done.result(TIMEOUT_S)
    told = mirror_once(spark, here, there, topic)
    assert (
        f"3 offsets of {topic}-0, from 5 on, are gone by retention before they were copied"
        in told.sentences
    )
    kept = [record(number) for number in (0, 1, 2, 3, 4, 8, 9)]
    assert read(there, topic, 1) == [kept]

    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    with pytest.raises(TopicMissing, match=topic):
        mirror_once(spark, here, there, topic)
    make_topic(here, topic, configs=KEEP)
    send(here, topic, 0, [record(20)])
    told = mirror_once(spark, here, there, topic)
    assert any("was made anew" in sentence for sentence in told.sentences)
    assert read(there, topic, 1) == [[*kept, record(20)]]

    admin = AdminClient({"bootstrap.servers": there})
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    told = mirror_once(spark, here, there, topic)
    assert any("was deleted or made anew" in sentence for sentence in told.sentences)
    assert read(there, topic, 1) == [[record(20)]]


@pytest.mark.full
def test_both_ways_and_copies_that_are_refused(
    cluster: Cluster, target: EmbeddedCluster, spark: SparkSession
) -> None:
    here, there = cluster.bootstrap, target.bootstrap
    one, other = (unique_name("two-ways") for _ in range(2))
    make_topic(here, one, configs=KEEP)
    make_topic(there, other, configs=KEEP)
    send(here, one, 0, [record(1)])
    send(there, other, 0, [record(2)])
    mirror_once(spark, here, there, one)
    told = mirror_once(spark, there, here, pattern=f"{one}|{other}", alias="west")
    assert any("is not copied back" in sentence for sentence in told.sentences)
    assert read(here, other, 1) == [[record(2)]]
    assert read(here, one, 1) == [[record(1)]]
    with pytest.raises(LoopRefused, match="they would come back"):
        mirror_once(spark, there, here, one, alias="west")
    with pytest.raises(LoopRefused, match="the target itself"):
        mirror_once(spark, here, here, one, alias="self")
    # Under another alias it would be the copy of two.
    with pytest.raises(CopyRefused, match="the copy of"):
        mirror_once(spark, here, there, one, alias="east2")
    mirror_once(spark, here, there, one, alias="east2", prefixed=True)
    assert read(there, f"east2.{one}", 1) == [[record(1)]]

    # A record that is too large for the copy.
    small = make_topic(here, unique_name("large"), configs=KEEP)
    make_topic(there, small, configs={**KEEP, "max.message.bytes": "2000"})
    large = record(0)._replace(value=bytes(5000))
    send(here, small, 0, [record(0), large])
    with pytest.raises(CopyRefused, match=r"the record at offset 1 of .* is too large"):
        mirror_once(spark, here, there, small)
    # It fits when it is compressed.
    assert mirror_once(spark, here, there, small, compression="gzip").records == 2
    assert read(there, small, 1) == [[record(0), large]]


@pytest.mark.full
def test_a_transaction_that_was_left_open_is_aborted(
    cluster: Cluster, target: EmbeddedCluster, spark: SparkSession, topic: str
) -> None:
    """As if a kill came between a sync and the end of its transaction, the record and the sync being there."""
    here, there = cluster.bootstrap, target.bootstrap
    send(here, topic, 0, [record(1)])
    mirror_once(spark, here, there, topic)
    left = Producer(
        {
            "bootstrap.servers": there,
            "transactional.id": transactional_id("east", topic, 2),
            "log_level": 0,
        }
    )
    left.init_transactions(TIMEOUT_S)
    left.begin_transaction()
    left.produce(topic, b"never", partition=2)
    left.produce(offsets_topic("east"), b"{}", key=b'["sync", "never"]', partition=0)
    assert left.flush(TIMEOUT_S) == 0
    send(here, topic, 0, [record(2)])
    mirror_once(spark, here, there, topic)
    assert read(there, topic, 3) == read(here, topic, 3) == [[record(1), record(2)], [], []]
