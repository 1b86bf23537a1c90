"""Go clients against the cluster: franz-go and sarama, the scenarios for every client."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest

from tests.conformance import scenarios
from tests.conformance.client import ACKS, CODECS, Client
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.clients.driver_client import DriverClient
from tests.conformance.clients.go_drivers import FRANZ_GO, SARAMA, go_driver
from tests.support.cluster import Cluster

pytestmark = [pytest.mark.clients]

both = pytest.mark.parametrize("client", [FRANZ_GO, SARAMA], ids=lambda client: client.name)


@both
def test_every_codec_is_read_back(cluster: Cluster, topic: str, client: Client) -> None:
    scenarios.produce_and_read_back(client, cluster, topic, codec="zstd")


@pytest.mark.full
@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("codec", CODECS)
@both
def test_every_codec_with_every_acks(
    cluster: Cluster, topic: str, client: Client, codec: str, acks: str
) -> None:
    scenarios.produce_and_read_back(client, cluster, topic, codec=codec, acks=acks)


@both
def test_reads_from_a_timestamp(cluster: Cluster, topic: str, client: Client) -> None:
    scenarios.read_from_timestamp(client, cluster, topic, producer=client)


@both
def test_group_of_two(cluster: Cluster, topic: str, client: Client) -> None:
    scenarios.group_of_two(client, cluster, topic, producer=client)


def test_group_of_two_of_the_consumer_protocol(cluster: Cluster, topic: str) -> None:
    """KIP-848 by franz-go; sarama does not have it."""
    client = DriverClient("franz-go", partial(go_driver, "franz"), protocol="consumer")
    scenarios.group_of_two(client, cluster, topic, producer=FRANZ_GO)


def test_the_version_of_kafka_that_a_broker_is_taken_for(cluster: Cluster) -> None:
    """franz-go's guess ends at the first release that has an API, or a version of one, which is missing: share
    groups came with 4.0. It asks for what it needs API by API, and shows the guess to people.
    """
    told = json.loads(FRANZ_GO.run("version", cluster.bootstrap, {}))["version"]
    if cluster.mode == "kafka":
        assert re.fullmatch(r"v4\.\d", told), told
    else:
        assert told == "at least v3.9"


@pytest.mark.full
@pytest.mark.parametrize("codec", CODECS)
@both
def test_others_read_what_it_writes(
    cluster: Cluster, topic: str, client: Client, codec: str
) -> None:
    scenarios.produce_and_read_back(client, cluster, topic, codec=codec, consumer=ConfluentClient())
