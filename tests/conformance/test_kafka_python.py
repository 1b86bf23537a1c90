"""kafka-python 3 against the cluster: the scenarios for every client."""

from __future__ import annotations

import pytest

from tests.conformance import scenarios
from tests.conformance.client import ACKS, CODECS
from tests.conformance.clients.kafka_python import KafkaPythonClient
from tests.support.cluster import Cluster

CLIENT = KafkaPythonClient()


@pytest.mark.core(codec="zstd")
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_back(cluster: Cluster, topic: str, codec: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec)


@pytest.mark.parametrize("acks", ["0", "1"])
def test_every_acks_is_read_back(cluster: Cluster, topic: str, acks: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec="none", acks=acks)


@pytest.mark.full
@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_with_every_acks(cluster: Cluster, topic: str, codec: str, acks: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec, acks=acks)


def test_reads_from_a_timestamp(cluster: Cluster, topic: str) -> None:
    scenarios.read_from_timestamp(CLIENT, cluster, topic, producer=CLIENT)


def test_group_of_two(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(CLIENT, cluster, topic, producer=CLIENT)
