"""Java clients 0.9.0.1 and 0.10.2.2 on a gateway with `old_message_formats`.

Kafka 4.3 serves none of them, so these tests have clusters of their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.conformance import scenarios
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.clients.old_java import OldJavaClient
from tests.conformance.messages import Message, Stored, make_messages
from tests.conformance.topics import make_topic
from tests.support.embedded_cluster import EmbeddedCluster
from tests.support.old_java import VERSIONS

pytestmark = pytest.mark.java

CODECS = ("none", "gzip", "snappy", "lz4")
REFERENCE = ConfluentClient()
COUNT = 300

every_client = pytest.mark.parametrize("client", [OldJavaClient(version) for version in VERSIONS])


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    environment = {"HIGHWATER_GATEWAY_OLD_MESSAGE_FORMATS": "true"}
    cluster = EmbeddedCluster(tmp_path_factory.mktemp("old"), environment=environment)
    cluster.start()
    yield cluster
    assert cluster.complaints() == []
    cluster.stop()


def plain(stored: list[Stored]) -> list[tuple[int, bytes | None, bytes | None]]:
    """What every format has."""
    return [(one.offset, one.message.key, one.message.value) for one in stored]


def expected(messages: list[Message]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(n, one.key, one.value) for n, one in enumerate(messages)]


def check_both_ways(
    cluster: EmbeddedCluster, topic: str, client: OldJavaClient, codec: str
) -> None:
    """Reads what the old client wrote with it and with a current one, then the other way."""
    bootstrap, before_ms = cluster.bootstrap, int(time.time() * 1000)
    make_topic(bootstrap, topic)
    sent = make_messages(COUNT, writes=client.writes)
    client.produce(bootstrap, topic, sent, codec=codec)
    assert scenarios.codecs_on_the_wire(cluster, topic, 1) - {"none"} == {codec} - {"none"}
    read = REFERENCE.consume(bootstrap, topic, partitions=1, count=COUNT)
    again = client.consume(bootstrap, topic, partitions=1, count=COUNT)
    assert plain(read) == plain(again) == expected(sent)
    for stored in (read, again):
        times = [one.message.timestamp_ms or -1 for one in stored]
        if "0.9" in client.name:
            assert set(times) == {-1}
        else:
            assert before_ms - 1000 <= min(times) <= max(times) <= time.time() * 1000 + 1000

    newer = make_topic(bootstrap, f"{topic}-newer")
    sent = make_messages(COUNT, writes=frozenset({"nulls", "headers", "timestamps"}))
    REFERENCE.produce(bootstrap, newer, sent, partition=0, codec=codec)
    read = client.consume(bootstrap, newer, partitions=1, count=COUNT)
    assert plain(read) == expected(sent)
    if "0.9" not in client.name:
        assert [r.message.timestamp_ms for r in read] == [m.timestamp_ms for m in sent]
    assert client.offsets(bootstrap, newer, 0) == (0, COUNT)


def test_lz4_of_kafka_0_9(old: EmbeddedCluster, topic: str) -> None:
    check_both_ways(old, topic, OldJavaClient("0.9"), "lz4")


@pytest.mark.full
@every_client
@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(old: EmbeddedCluster, topic: str, client: OldJavaClient, codec: str) -> None:
    check_both_ways(old, topic, client, codec)


@pytest.mark.full
@every_client
def test_group_of_two(old: EmbeddedCluster, topic: str, client: OldJavaClient) -> None:
    scenarios.group_of_two(client, old, topic, producer=REFERENCE)
