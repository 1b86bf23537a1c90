"""One client writes and another reads: each pair, with each codec."""

from __future__ import annotations

import pytest

from tests.conformance import scenarios
from tests.conformance.client import CODECS, Client
from tests.conformance.clients.aiokafka_client import AiokafkaClient
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.clients.java_tools_client import JavaToolsClient
from tests.conformance.clients.kafka_python import KafkaPythonClient
from tests.conformance.clients.kcat import KcatClient
from tests.conformance.clients.node_drivers import KAFKAJS
from tests.support.cluster import Cluster

CLIENTS: list[Client] = [
    ConfluentClient(),
    KafkaPythonClient(),
    AiokafkaClient(),
    KcatClient(),
    KAFKAJS,
    JavaToolsClient(),
]
_NAMES = [client.name for client in CLIENTS]
# One reader per writer outside `make full`, chosen so that each client reads once.
_QUICK = {(_NAMES[index], _NAMES[(index + 1) % len(_NAMES)]) for index in range(len(_NAMES))}

pytestmark = [pytest.mark.clients, pytest.mark.java]


def _pairs() -> list[object]:
    return [
        pytest.param(
            producer,
            consumer,
            codec,
            id=f"{producer.name}-{consumer.name}-{codec}",
            marks=()
            if codec == "snappy" and (producer.name, consumer.name) in _QUICK
            else pytest.mark.full,
        )
        for producer in CLIENTS
        for consumer in CLIENTS
        if producer is not consumer
        for codec in CODECS
    ]


@pytest.mark.parametrize(("producer", "consumer", "codec"), _pairs())
def test_one_writes_and_another_reads(
    cluster: Cluster, topic: str, producer: Client, consumer: Client, codec: str
) -> None:
    scenarios.produce_and_read_back(producer, cluster, topic, codec=codec, consumer=consumer)
