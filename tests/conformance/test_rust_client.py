"""The rdkafka crate against the cluster: the scenarios for every client."""

from __future__ import annotations

import pytest

from tests.conformance import scenarios
from tests.conformance.client import CODECS
from tests.conformance.clients.driver_client import DriverClient
from tests.conformance.clients.rust_driver import BUILD_TIMEOUT_S, needs_cargo, rust_driver
from tests.conformance.clients.rust_driver import RUST_RDKAFKA as CLIENT
from tests.support.cluster import Cluster

pytestmark = [
    pytest.mark.clients,
    pytest.mark.full,
    pytest.mark.timeout(BUILD_TIMEOUT_S),
    needs_cargo,
]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_back(cluster: Cluster, topic: str, codec: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec)


def test_reads_from_a_timestamp(cluster: Cluster, topic: str) -> None:
    scenarios.read_from_timestamp(CLIENT, cluster, topic, producer=CLIENT)


def test_group_of_two(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(CLIENT, cluster, topic, producer=CLIENT)


def test_group_of_two_of_the_consumer_protocol(cluster: Cluster, topic: str) -> None:
    """KIP-848."""
    client = DriverClient("rdkafka crate", rust_driver, protocol="consumer")
    scenarios.group_of_two(client, cluster, topic, producer=CLIENT)
