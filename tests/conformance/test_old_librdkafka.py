"""librdkafka 1.8.2 against the cluster: the scenarios for every client; transactions in `test_transactions.py`.

Of before its feature map was mended in 2.11: it compresses, and joins groups, only if brokers offer the
versions that it knows exactly.
"""

from __future__ import annotations

import pytest

from tests.conformance import scenarios
from tests.conformance.client import CODECS
from tests.conformance.clients.go_drivers import BUILD_TIMEOUT_S, needs_x86_64
from tests.conformance.clients.go_drivers import LIBRDKAFKA_1_8 as CLIENT
from tests.support.cluster import Cluster

pytestmark = [
    pytest.mark.clients,
    pytest.mark.full,
    pytest.mark.timeout(BUILD_TIMEOUT_S),
    needs_x86_64,
]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_back(cluster: Cluster, topic: str, codec: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec)


def test_reads_from_a_timestamp(cluster: Cluster, topic: str) -> None:
    scenarios.read_from_timestamp(CLIENT, cluster, topic, producer=CLIENT)


def test_group_of_two(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(CLIENT, cluster, topic, producer=CLIENT)
