"""Compares /metrics after real traffic with the clients' own counters."""

from __future__ import annotations

import json
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.kafka.framing import encode_request_header, frame
from highwater.kafka.messages import fetch, heartbeat, metadata, produce
from tests.cluster.runner import Up
from tests.support.process import wait_until
from tests.support.wire import RawConnection

BOTH_MODES = pytest.mark.parametrize(
    "up",
    ["embedded", "nodes3", pytest.param("combined3", marks=pytest.mark.full)],
    indirect=True,
)
TOPIC, PARTITIONS, COUNT, VALUE = "metered", 3, 300, b"v" * 1000
QUIET_S_MAX = 20.0

Metrics = Counter[tuple[str, ...]]
"""(name without the prefix, values of its labels) -> sum over the cluster's processes."""


def pages(up: Up) -> Iterator[str]:
    """What each process shows."""
    for address in json.loads((up.data_dir / "metrics.json").read_text()).values():
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as reply:
            yield reply.read().decode()


def scrape(up: Up) -> Metrics:
    """All metrics of all processes of the cluster."""
    found: Metrics = Counter()
    for page in pages(up):
        for family in text_string_to_metric_families(page):
            for one in family.samples:
                name = one.name.removeprefix("highwater_").removesuffix("_total")
                found[name, *one.labels.values()] += one.value
    return found


def since(before: Metrics, after: Metrics) -> Metrics:
    after = after.copy()
    after.subtract(before)
    return after


def total(metrics: Metrics, name: str) -> float:
    return sum(value for key, value in metrics.items() if key[0] == name)


class Statistics:
    """librdkafka's own counters of one client, over all its connections."""

    def __init__(self) -> None:
        self.seen: list[dict[str, int]] = []

    def __call__(self, text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        told = Counter({name: sum(broker[name] for broker in brokers) for name in COUNTED})
        for broker in brokers:
            told.update(broker["req"])
        self.seen.append(told)

    def when_quiet(self, poll: Callable[[], object]) -> dict[str, int]:
        """The counters once they have stood still for three reports."""
        self.seen.clear()

        def quiet() -> bool:
            poll()
            return len(self.seen) > 2 and self.seen[-1] == self.seen[-2] == self.seen[-3]

        wait_until(quiet, timeout_s=QUIET_S_MAX, what="a client that asks for nothing")
        return self.seen[-1]


COUNTED = ("tx", "txbytes", "rx", "rxbytes")


def client_config(up: Up, statistics: Statistics) -> dict[str, object]:
    return {
        "bootstrap.servers": up.bootstrap,
        "statistics.interval.ms": 150,
        "stats_cb": statistics,
        "topic.metadata.refresh.interval.ms": -1,
    }


def since_told(before: dict[str, int], after: dict[str, int]) -> Counter[str]:
    told = Counter(after)
    told.subtract(before)
    return told


@BOTH_MODES
def test_no_process_shows_a_metric_twice(up: Up) -> None:
    """Prometheus refuses a page with a sample that is there twice."""
    for page in pages(up):
        samples = Counter(
            (one.name, tuple(sorted(one.labels.items())))
            for family in text_string_to_metric_families(page)
            for one in family.samples
        )
        assert samples
        assert [name for name, count in samples.items() if count > 1] == []


@BOTH_MODES
def test_requests_and_bytes_are_what_a_producer_counts(up: Up) -> None:
    with KafkaClient(up.bootstrap) as client:
        client.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1, configs={})
    statistics = Statistics()
    producer = Producer({**client_config(up, statistics), "linger.ms": 5})

    def send(count: int) -> None:
        for number in range(count):
            producer.produce(TOPIC, VALUE, partition=number % PARTITIONS)
            producer.poll(0)
            if number % 50 == 49:
                assert producer.flush(20) == 0
        assert producer.flush(20) == 0

    # The client's counters leave out its first connection, which asks for the brokers.
    send(PARTITIONS)
    told_before = statistics.when_quiet(lambda: producer.poll(0.05))
    before = scrape(up)
    began = time.monotonic()
    send(COUNT)
    elapsed_s = time.monotonic() - began
    told = since_told(told_before, statistics.when_quiet(lambda: producer.poll(0.05)))
    seen = since(before, scrape(up))
    assert told["Produce"] > 0
    assert seen["gateway_requests", "produce"] == told["Produce"]
    assert total(seen, "gateway_requests") == told["tx"] == told["rx"]
    assert total(seen, "gateway_request_bytes") == told["txbytes"]
    assert total(seen, "gateway_response_bytes") == told["rxbytes"]
    assert total(seen, "gateway_request_errors") == 0
    appended = total(seen, "partition_appended_bytes")
    assert COUNT * len(VALUE) < appended < seen["gateway_request_bytes", "produce"]
    assert_latency(seen, "produce", elapsed_s)


@BOTH_MODES
def test_requests_and_bytes_are_what_a_consumer_counts(up: Up) -> None:
    with KafkaClient(up.bootstrap) as client:
        client.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=1, configs={})
    producer = Producer({"bootstrap.servers": up.bootstrap})
    for number in range(COUNT):
        producer.produce(TOPIC, VALUE, partition=number % PARTITIONS)
    assert producer.flush(20) == 0
    before = scrape(up)
    statistics = Statistics()
    consumer = Consumer({
        **client_config(up, statistics), "group.id": "none", "enable.auto.commit": False,
        "fetch.wait.max.ms": 30_000, "socket.timeout.ms": 60_000,
    })  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    read = 0

    def poll() -> None:
        nonlocal read
        read += sum(message.error() is None for message in consumer.consume(100, timeout=0.05))

    wait_until(lambda: poll() or read == COUNT, timeout_s=30, what="all records")
    told = statistics.when_quiet(poll)
    seen = since(before, scrape(up))
    # One Fetch at each node waits for more records than there are, and has no answer yet.
    assert 0 < told["Fetch"] - seen["gateway_requests", "fetch"] <= up.node_count
    fetched = total(seen, "partition_fetched_bytes")
    assert COUNT * len(VALUE) < fetched < seen["gateway_response_bytes", "fetch"]
    assert seen["gateway_response_bytes", "fetch"] <= told["rxbytes"]
    assert total(seen, "gateway_request_errors") == 0
    consumer.close()


def assert_latency(seen: Metrics, api: str, elapsed_s: float) -> None:
    """Asserts that the histogram has every request once, and a plausible median."""
    name = "gateway_request_latency_seconds"
    count = seen[f"{name}_count", api]
    assert count == seen["gateway_requests", api] == seen[f"{name}_bucket", api, "+Inf"]
    assert 0 < seen[f"{name}_sum", api] < elapsed_s * count
    buckets = sorted(
        (float(key[2]), value) for key, value in seen.items() if key[:2] == (f"{name}_bucket", api)
    )
    counts = [value for _, value in buckets]
    assert counts == sorted(counts), "buckets are cumulative"
    median_s = next(bound for bound, value in buckets if value >= count / 2)
    assert median_s <= 1.0


def broken_requests(connection: RawConnection) -> None:
    """Sends requests that the gateway, a node and a group coordinator answer with errors."""
    topic, data = produce.ProduceRequestTopicProduceData, produce.ProduceRequestPartitionProduceData
    batch = b"no record batch, only so many bytes that it may be taken for one" * 2
    reply = connection.ask(
        produce.ProduceRequest(
            acks=1,
            timeout_ms=5000,
            topic_data=[
                topic(name="unknown", partition_data=[data(index=0, records=batch)]),
                topic(name=TOPIC, partition_data=[data(index=77, records=batch)]),
            ],
        ),
        9,
    )
    assert [p.error_code for t in reply.responses for p in t.partition_responses] == [3, 3]
    asked = fetch.FetchRequestFetchPartition(
        partition=0, fetch_offset=1_000_000, partition_max_bytes=1000
    )
    for _ in range(3):  # The second and third take the fast path.
        reply = connection.ask(
            fetch.FetchRequest(
                replica_id=-1,
                max_bytes=1000,
                topics=[fetch.FetchRequestFetchTopic(topic=TOPIC, partitions=[asked])],
            ),
            11,
        )
        assert reply.responses[0].partitions[0].error_code == 1
    named = [metadata.MetadataRequestMetadataRequestTopic(name="unknown")]
    reply = connection.ask(
        metadata.MetadataRequest(topics=named, allow_auto_topic_creation=False), 9
    )
    assert reply.topics[0].error_code == 3
    reply = connection.ask(heartbeat.HeartbeatRequest(group_id="g", member_id="nobody"), 3)
    assert reply.error_code != 0


@BOTH_MODES
def test_errors_are_counted_by_kafkas_names(up: Up) -> None:
    with KafkaClient(up.bootstrap) as client:
        client.create_topic(TOPIC, partitions=1, replication_factor=1, configs={})
        (leader,) = client.metadata([TOPIC]).topics[0].partitions
        address = next(
            f"{broker.host}:{broker.port}"
            for broker in client.metadata([TOPIC]).brokers
            if broker.node_id == leader.leader_id
        )
    before = scrape(up)
    with RawConnection.to(address) as connection:
        broken_requests(connection)
    seen = since(before, scrape(up))
    errors = {key[1:]: value for key, value in seen.items() if key[0] == "gateway_request_errors"}
    (group_error,) = [key for key in errors if key[0] == "heartbeat"]
    assert errors == {
        ("produce", "UNKNOWN_TOPIC_OR_PARTITION"): 2,
        ("fetch", "OFFSET_OUT_OF_RANGE"): 3,
        ("metadata", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
        group_error: 1,
    }
    assert seen["gateway_requests", "produce"] == seen["gateway_requests", "heartbeat"] == 1
    assert seen["gateway_requests", "fetch"] == 3
    with RawConnection.to(address) as connection:
        connection.send_bytes(frame(encode_request_header(produce.API_KEY, 2, 1, "raw"), bytes(9)))
        connection.wait_for_close()
    assert since(before, scrape(up))["gateway_refused_requests",] == 1
