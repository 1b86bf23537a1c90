"""Fixtures of the raw protocol tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.topics import make_topic
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[RawConnection]:
    """A connection to the bootstrap address."""
    with RawConnection.to(cluster.bootstrap) as opened:
        yield opened


@pytest.fixture
def made_topic(cluster: Cluster, topic: str) -> str:
    """An existing topic with two partitions."""
    return make_topic(cluster.bootstrap, topic, partitions=2)
