"""The rdkafka crate against the cluster: the scenarios for every client."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.conformance import scenarios
from tests.conformance.client import CODECS
from tests.conformance.clients.rust_driver import RUST_RDKAFKA as CLIENT
from tests.support.cluster import Cluster

_BUILD_TIMEOUT_S = 1_000


def _cargo() -> tuple[int, ...]:
    """The version of cargo; () without one."""
    if shutil.which("cargo") is None:
        return ()
    command = ["cargo", "--version"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    return tuple(int(number) for number in re.findall(r"\d+", shown)[:2])


pytestmark = [
    pytest.mark.clients,
    pytest.mark.full,
    pytest.mark.timeout(_BUILD_TIMEOUT_S),
    pytest.mark.skipif(_cargo() < (1, 85), reason="the rdkafka crate needs cargo 1.85"),
]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_back(cluster: Cluster, topic: str, codec: str) -> None:
    scenarios.produce_and_read_back(CLIENT, cluster, topic, codec=codec)


def test_reads_from_a_timestamp(cluster: Cluster, topic: str) -> None:
    scenarios.read_from_timestamp(CLIENT, cluster, topic, producer=CLIENT)


def test_group_of_two(cluster: Cluster, topic: str) -> None:
    scenarios.group_of_two(CLIENT, cluster, topic, producer=CLIENT)
