"""kcat 1.7.1 with librdkafka 2.0.2, as in Debian: its feature map is the strict one."""

from __future__ import annotations

import json
import time

import pytest

from tests.conformance import scenarios
from tests.conformance.client import ACKS, CODECS
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.clients.kcat import KcatClient, kcat
from tests.conformance.clients.line_process import ProgramError
from tests.conformance.messages import Message
from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster

CLIENT = KcatClient()
REFERENCE = ConfluentClient()

pytestmark = pytest.mark.clients


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
    scenarios.read_from_timestamp(CLIENT, cluster, topic, producer=REFERENCE)


def test_group_of_two(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(CLIENT, cluster, topic, producer=REFERENCE)


@pytest.mark.core
@pytest.mark.gateways
def test_metadata_listing(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, partitions=3)
    listing = json.loads(kcat("-L", "-J", "-b", cluster.bootstrap, "-t", topic))
    assert {broker["id"] for broker in listing["brokers"]} == {
        node.node_id for node in cluster.nodes
    }
    assert {broker["name"] for broker in listing["brokers"]} == {
        f"{node.host}:{node.port}" for node in cluster.nodes
    }
    (found,) = listing["topics"]
    assert len(found["partitions"]) == 3


def test_query_of_offsets_by_timestamp(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    start = int(time.time() * 1000) - 100_000
    messages = [
        Message(key=None, value=b"x", timestamp_ms=start + 10 * index) for index in range(10)
    ]
    REFERENCE.produce(cluster.bootstrap, topic, messages, partition=0)
    for asked, offset in [("-2", 0), ("-1", 10), (str(start + 35), 4), (str(start + 95), -1)]:
        answer = kcat("-Q", "-b", cluster.bootstrap, "-t", f"{topic}:0:{asked}").decode()
        assert answer.strip() == f"{topic} [0] offset {offset}"


def test_a_message_that_is_too_large(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic, configs={"max.message.bytes": "1000"})
    with pytest.raises(ProgramError, match="Message size too large"):
        CLIENT.produce(cluster.bootstrap, topic, [Message(key=b"k", value=b"x" * 5_000)])


def test_an_unknown_topic(cluster: Cluster, topic: str) -> None:
    with pytest.raises(ProgramError, match="Unknown topic"):
        kcat("-C", "-b", cluster.bootstrap, "-t", topic, "-e", "-E")


def test_reads_offsets_and_headers(cluster: Cluster, topic: str) -> None:
    make_topic(cluster.bootstrap, topic)
    kcat(
        *("-P", "-b", cluster.bootstrap, "-t", topic, "-p", "0"),
        *("-H", "colour=blue", "-H", "size=7"),
        stdin=b"one\ntwo\nthree\n",
    )
    output = kcat(
        *("-C", "-b", cluster.bootstrap, "-t", topic, "-p", "0", "-o", "1", "-e", "-q"),
        *("-f", "%o %s %h\n"),
    ).decode()
    assert output == "1 two colour=blue,size=7\n2 three colour=blue,size=7\n"
    last = kcat("-C", "-b", cluster.bootstrap, "-t", topic, "-p", "0", "-o", "-1", "-e", "-q")
    assert last == b"three\n"
