"""Kafka's Java clients of earlier releases: 0.11, the first with transactions, 2.1 and 3.9.

None of them knows transaction.version 2: their transactions are those of version 1 (EndTxn before 5).
"""

from __future__ import annotations

import json
from functools import partial

import pytest

from tests.conformance import scenarios
from tests.conformance.client import CLIENT_TIMEOUT_S, CODECS
from tests.conformance.clients.confluent import ConfluentClient
from tests.conformance.clients.driver_client import DriverClient, Transaction
from tests.conformance.clients.line_process import run_program
from tests.conformance.messages import Message
from tests.conformance.topics import committed_offsets, end_offsets, make_topic, unique_name
from tests.support.cluster import Cluster
from tests.support.old_java import DRIVEN, admin_command, driver_command
from tests.support.process import wait_until

pytestmark = pytest.mark.java

REFERENCE = ConfluentClient()
PARTITIONS = 2


def java_client(version: str, **options: str) -> DriverClient:
    return DriverClient(f"java {DRIVEN[version]}", partial(driver_command, version), **options)


LAST = java_client("3.9")
every_release = pytest.mark.parametrize(
    "client",
    [
        pytest.param(java_client(version), marks=() if version == "3.9" else pytest.mark.full)
        for version in DRIVEN
    ],
    ids=lambda client: client.name,
)


@pytest.mark.parametrize(
    ("version", "codec"),
    [
        pytest.param(
            version, codec, marks=() if (version, codec) == ("3.9", "zstd") else pytest.mark.full
        )
        for version in DRIVEN
        for codec in CODECS
        if codec != "zstd" or version != "0.11"
    ],
)
def test_every_codec_is_read_back(cluster: Cluster, topic: str, version: str, codec: str) -> None:
    scenarios.produce_and_read_back(java_client(version), cluster, topic, codec=codec)


@every_release
def test_reads_from_a_timestamp(cluster: Cluster, topic: str, client: DriverClient) -> None:
    scenarios.read_from_timestamp(client, cluster, topic, producer=REFERENCE)


@every_release
def test_group_of_two(cluster: Cluster, topic: str, client: DriverClient) -> None:
    scenarios.group_of_two(client, cluster, topic, producer=REFERENCE)


def test_group_of_two_of_the_consumer_protocol(cluster: Cluster, topic: str) -> None:
    """KIP-848 as 3.9 has it: version 0 of its heartbeat, with member ids of the coordinator's."""
    scenarios.group_of_two(
        java_client("3.9", protocol="consumer"), cluster, topic, producer=REFERENCE
    )


@pytest.mark.core
@every_release
def test_transactions_with_offsets_of_a_group(
    cluster: Cluster, topic: str, group: str, client: DriverClient
) -> None:
    make_topic(cluster.bootstrap, topic, partitions=PARTITIONS)
    work = [
        Transaction(
            abort=number % 3 == 1,
            messages=[Message(key=None, value=b"%d-%d" % (number, n)) for n in range(3)],
            partition=number % PARTITIONS,
        )
        for number in range(7)
    ]
    outcomes = client.transact(cluster.bootstrap, topic, unique_name("payments"), work, group=group)
    assert outcomes == ["aborted" if one.abort else "committed" for one in work]
    wait_until(
        lambda: committed_offsets(cluster.bootstrap, group) == {0: 7, 1: 6},
        timeout_s=CLIENT_TIMEOUT_S,
        what="the offsets of the last transactions, which are their numbers",
    )
    committed = {m.value for one in work if not one.abort for m in one.messages}
    read = REFERENCE.consume(cluster.bootstrap, topic, partitions=PARTITIONS, count=len(committed))
    assert {one.message.value for one in read} == committed
    # Three records and a marker for each transaction.
    assert end_offsets(cluster.bootstrap, topic, PARTITIONS) == {0: 16, 1: 12}


@pytest.mark.core
def test_admin_client_of_3_9(cluster: Cluster, topic: str, group: str) -> None:
    command = admin_command(cluster.bootstrap, topic, group, unique_name("payments"))
    told = json.loads(run_program(command))
    features, nodes = told.pop("features"), told.pop("nodes")
    assert {"group.version", "metadata.version", "transaction.version"} <= set(features)
    assert nodes == told.pop("directories") >= 1
    assert told == {
        "controller": True,
        "voters": True,
        "quotas": 0,
        "acls": "SecurityDisabledException",
        "again": "TopicExistsException",
        "retention": "3600000",
        "source": "DYNAMIC_TOPIC_CONFIG",
        "partitions": 3,
        "low": 4,
        "earliest": 4,
        "latest": 11,
        "newest": True,
        "listed": 1,
        "state": "COMPLETE_COMMIT",
        "producers": 1,
        "offset": 5,
        "groups": 1,
        "described": "EMPTY",
        "kept": [0],
        "unknown": "GroupIdNotFoundException",
        "left": False,
    }
