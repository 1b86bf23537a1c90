"""@platformatic/kafka against the cluster: the scenarios for every client."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.conformance import scenarios
from tests.conformance.client import CODECS
from tests.conformance.clients.node_drivers import PLATFORMATIC as CLIENT
from tests.support.cluster import Cluster


def _node() -> tuple[int, ...]:
    shown = subprocess.run(
        ["node", "--version"], check=True, capture_output=True, text=True, timeout=30
    ).stdout
    return tuple(int(number) for number in re.findall(r"\d+", shown))


pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(_node() < (20, 19, 4), reason="@platformatic/kafka needs Node 20.19.4"),
]


@pytest.mark.parametrize(
    "codec",
    [
        pytest.param(codec, marks=() if codec == "lz4" else pytest.mark.full)
        for codec in CODECS
        if codec != "zstd" or _node() >= (22, 15)
    ],
)
def test_every_codec_is_read_back(cluster: Cluster, topic: str, codec: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec)


def test_reads_from_a_timestamp(cluster: Cluster, topic: str) -> None:
    scenarios.read_from_timestamp(CLIENT, cluster, topic, producer=CLIENT)


@pytest.mark.core
def test_group_of_two(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(CLIENT, cluster, topic, producer=CLIENT)
