"""A node's limits of groups: they are enforced, and shown by DescribeConfigs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
)
from highwater.kafka.messages.find_coordinator import FindCoordinatorRequest
from highwater.kafka.messages.offset_fetch import OffsetFetchRequest
from tests.conformance.protocol.groups import OFFSET_FETCH_VERSION, Member
from tests.conformance.topics import make_topic
from tests.support.embedded_cluster import EmbeddedCluster
from tests.support.process import wait_until
from tests.support.wire import RawConnection, only

_SETTINGS = {
    "group.min.session.timeout.ms": "2000",
    "group.max.session.timeout.ms": "20000",
    "group.max.size": "1",
    "offset.metadata.max.bytes": "5",
    "offsets.retention.minutes": "7",
    "producer.id.expiration.ms": "70000",
}
_BROKER, _STATIC = 4, 4


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    environment = {
        f"HIGHWATER_PARTITION_{name.replace('.', '_').upper()}": value
        for name, value in _SETTINGS.items()
    }
    cluster = EmbeddedCluster(tmp_path_factory.mktemp("limited"), environment=environment)
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def member(limited: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[Member]:
    group = request.node.name
    with RawConnection.to(limited.bootstrap) as connection:
        wait_until(lambda: _is_served(connection, group), timeout_s=20, what="a coordinator")
        yield Member(connection=connection, group=group)


def _is_served(connection: RawConnection, group: str) -> bool:
    """True if the group has a coordinator that has loaded its log."""
    found = connection.ask(FindCoordinatorRequest(key=group), 3).error_code
    asked = OffsetFetchRequest(group_id=group, topics=[])
    return not found and not connection.ask(asked, OFFSET_FETCH_VERSION).error_code


def test_session_timeouts(member: Member) -> None:
    assert member.join(session_timeout_ms=1999).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert member.join(session_timeout_ms=20001).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert member.join(session_timeout_ms=2000).error_code == ErrorCode.NONE


def test_members(member: Member, limited: EmbeddedCluster) -> None:
    assert member.join().error_code == ErrorCode.NONE
    with RawConnection.to(limited.bootstrap) as connection:
        second = Member(connection=connection, group=member.group)
        assert second.join().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_notes_beside_offsets(member: Member, limited: EmbeddedCluster) -> None:
    topic = make_topic(limited.bootstrap, "notes", partitions=1)
    assert member.commit(topic, 1, "12345") == ErrorCode.NONE
    assert member.commit(topic, 2, "123456") == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert member.committed(topic).committed_offset == 1


def test_they_are_told(limited: EmbeddedCluster) -> None:
    node = str(limited.nodes[0].node_id)
    asked = DescribeConfigsRequestDescribeConfigsResource(_BROKER, node, None)
    with RawConnection.to(limited.bootstrap) as connection:
        result = only(connection.ask(DescribeConfigsRequest(resources=[asked]), 4).results)
    told = {config.name: (config.value, config.config_source) for config in result.configs}
    assert {name: told[name] for name in _SETTINGS} == {
        name: (value, _STATIC) for name, value in _SETTINGS.items()
    }
