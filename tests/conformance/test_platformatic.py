"""@platformatic/kafka against the cluster: the scenarios for every client."""

from __future__ import annotations

from functools import partial

import pytest

from tests.conformance import scenarios
from tests.conformance.client import CODECS
from tests.conformance.clients.driver_client import DriverClient
from tests.conformance.clients.node_drivers import PLATFORMATIC as CLIENT
from tests.conformance.clients.node_drivers import needs_its_node, node_driver, node_version
from tests.support.cluster import Cluster

pytestmark = [pytest.mark.clients, needs_its_node]


@pytest.mark.parametrize(
    "codec",
    [
        pytest.param(codec, marks=() if codec == "lz4" else pytest.mark.full)
        for codec in CODECS
        if codec != "zstd" or node_version() >= (22, 15)
    ],
)
def test_every_codec_is_read_back(cluster: Cluster, topic: str, codec: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec)


def test_reads_from_a_timestamp(cluster: Cluster, topic: str) -> None:
    scenarios.read_from_timestamp(CLIENT, cluster, topic, producer=CLIENT)


def test_group_of_two(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(CLIENT, cluster, topic, producer=CLIENT)


def test_group_of_two_of_the_consumer_protocol(cluster: Cluster, topic: str) -> None:
    """KIP-848."""
    client = DriverClient("platformatic", partial(node_driver, "platformatic"), protocol="consumer")
    scenarios.group_of_two(client, cluster, topic, producer=CLIENT)
