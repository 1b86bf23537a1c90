"""Kafka 4.3's own command-line tools: a current Java client, and what operators type."""

from __future__ import annotations

import pytest

from tests.conformance import scenarios
from tests.conformance.client import ACKS, CODECS
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.clients.java_tools_client import JavaToolsClient
from tests.support.cluster import Cluster

CLIENT = JavaToolsClient()
REFERENCE = ConfluentClient()

pytestmark = pytest.mark.java


@pytest.mark.core
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_console_producer_and_consumer(cluster: Cluster, topic: str, codec: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec)


@pytest.mark.full
@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_with_every_acks(cluster: Cluster, topic: str, codec: str, acks: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec, acks=acks)


def test_reset_to_a_datetime_and_read_on(cluster: Cluster, topic: str) -> None:
    scenarios.read_from_timestamp(CLIENT, cluster, topic, producer=REFERENCE)


def test_group_of_two(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(CLIENT, cluster, topic, producer=REFERENCE)
