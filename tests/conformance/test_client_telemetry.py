"""Clients that would push their metrics (KIP-714), against brokers that have no receiver for them.

Such a broker of Kafka's offers neither GetTelemetrySubscriptions nor PushTelemetry (`ApiVersionsResponse`),
and clients say nothing about it.
"""

from __future__ import annotations

import logging
import time

import pytest
from confluent_kafka import Consumer, Producer

from highwater.kafka.messages.api_versions import ApiVersionsRequest
from tests.conformance.client import CLIENT_TIMEOUT_S
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster
from tests.support.java_tools import PRODUCER_PERFORMANCE, java_tool
from tests.support.wire import RawConnection

GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY = 71, 72
_LONG_ENOUGH_S = 3.0


def test_neither_api_is_offered(cluster: Cluster) -> None:
    with RawConnection.to(cluster.bootstrap) as connection:
        named = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
        offered = {one.api_key for one in connection.ask(named, 4).api_keys}
    assert offered.isdisjoint({GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY})


def test_librdkafka_says_nothing(cluster: Cluster, topic: str, group: str) -> None:
    make_topic(cluster.bootstrap, topic)
    said: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger = logging.getLogger("librdkafka of a client with metrics")
    logger.addHandler(Keep())
    logger.setLevel(logging.INFO)
    common = {"bootstrap.servers": cluster.bootstrap, "enable.metrics.push": True}
    producer = Producer(common, logger=logger)
    consumer = Consumer({**common, "group.id": group}, logger=logger)
    consumer.subscribe([topic])
    end = time.monotonic() + _LONG_ENOUGH_S
    while time.monotonic() < end:
        producer.produce(topic, b"value")
        producer.poll(0)
        consumer.poll(0.1)
    assert producer.flush(CLIENT_TIMEOUT_S) == 0
    consumer.close()
    assert said == []


@pytest.mark.java
def test_java_says_nothing(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    done = java_tool(
        PRODUCER_PERFORMANCE,
        *("--bootstrap-server", cluster.bootstrap, "--topic", topic),
        *("--num-records", "300", "--record-size", "10", "--throughput", "100"),
        jvm_options=("-Dorg.slf4j.simpleLogger.defaultLogLevel=info",),
    )
    lines = done.stderr.splitlines()
    assert any("Kafka version" in line for line in lines), "it does log"
    # What it takes up with its metrics collector at its start is information.
    assert [line for line in lines if " WARN " in line or " ERROR " in line] == []
