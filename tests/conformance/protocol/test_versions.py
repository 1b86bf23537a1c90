"""The broker answers every version that it advertises in that version."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest

from highwater.gateway.handling.apis import APIS as SERVED
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.message import Message
from highwater.kafka.message_index import API_MODULES
from highwater.kafka.messages.api_versions import ApiVersionsRequest
from highwater.kafka.messages.delete_groups import DeleteGroupsRequest
from highwater.kafka.messages.describe_groups import DescribeGroupsRequest
from highwater.kafka.messages.describe_log_dirs import DescribeLogDirsRequest
from highwater.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from highwater.kafka.messages.fetch import FetchRequest
from highwater.kafka.messages.find_coordinator import FindCoordinatorRequest
from highwater.kafka.messages.heartbeat import HeartbeatRequest
from highwater.kafka.messages.init_producer_id import InitProducerIdRequest
from highwater.kafka.messages.join_group import JoinGroupRequest
from highwater.kafka.messages.leave_group import LeaveGroupRequest
from highwater.kafka.messages.list_offsets import ListOffsetsRequest
from highwater.kafka.messages.metadata import MetadataRequest
from highwater.kafka.messages.offset_commit import OffsetCommitRequest
from highwater.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestOffsetFetchRequestGroup,
)
from highwater.kafka.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from highwater.kafka.messages.produce import ProduceRequest
from highwater.kafka.messages.sync_group import SyncGroupRequest
from highwater.kafka.messages.unregister_broker import UnregisterBrokerRequest
from highwater.kafka.registry import request_codec
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection

CLIENT = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")


def _offset_fetch(version: int, group: str) -> OffsetFetchRequest:
    if version < 8:
        return OffsetFetchRequest(group_id=group, topics=None if version >= 2 else [])
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestOffsetFetchRequestGroup(group_id=group, topics=None)]
    )


def _find_coordinator(version: int, group: str) -> FindCoordinatorRequest:
    if version < 4:
        return FindCoordinatorRequest(key=group)
    return FindCoordinatorRequest(coordinator_keys=[group])


def _request(key: ApiKey, version: int, group: str) -> Message:
    """A small request that changes nothing."""
    match key:
        case ApiKey.FIND_COORDINATOR:
            return _find_coordinator(version, group)
        case ApiKey.OFFSET_FETCH:
            return _offset_fetch(version, group)
        case _:
            made = _PLAIN.get(key)
            return _of_defaults(key) if made is None else made(group)


def _of_defaults(key: ApiKey) -> Message:
    """The API's request with the default in each field: it names nothing, or nothing that there is."""
    name = API_MODULES[key]
    module = import_module(f"highwater.kafka.messages.{name}")
    kind = "".join(part.capitalize() for part in name.split("_"))
    message: Message = getattr(module, f"{kind}Request")()
    return message


_PLAIN: dict[ApiKey, Callable[[str], Message]] = {
    # Where defaults are not enough, or ask for too much.
    ApiKey.PRODUCE: lambda _: ProduceRequest(acks=1, timeout_ms=1000),
    ApiKey.FETCH: lambda _: FetchRequest(max_wait_ms=0),
    ApiKey.LIST_OFFSETS: lambda _: ListOffsetsRequest(replica_id=-1),
    ApiKey.METADATA: lambda _: MetadataRequest(topics=[]),
    ApiKey.OFFSET_COMMIT: lambda group: OffsetCommitRequest(group_id=group),
    ApiKey.JOIN_GROUP: lambda group: JoinGroupRequest(
        group_id=group, session_timeout_ms=10_000, member_id="nobody", protocol_type="consumer"
    ),
    ApiKey.HEARTBEAT: lambda group: HeartbeatRequest(group_id=group, member_id="nobody"),
    ApiKey.LEAVE_GROUP: lambda group: LeaveGroupRequest(group_id=group, member_id=""),
    ApiKey.SYNC_GROUP: lambda group: SyncGroupRequest(group_id=group, member_id="nobody"),
    ApiKey.DESCRIBE_GROUPS: lambda group: DescribeGroupsRequest(groups=[group]),
    ApiKey.API_VERSIONS: lambda _: CLIENT,
    ApiKey.INIT_PRODUCER_ID: lambda _: InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1000
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda _: OffsetForLeaderEpochRequest(replica_id=-1),
    ApiKey.DESCRIBE_LOG_DIRS: lambda _: DescribeLogDirsRequest(topics=None),
    ApiKey.DELETE_GROUPS: lambda group: DeleteGroupsRequest(groups_names=[group]),
    ApiKey.DESCRIBE_QUORUM: lambda _: DescribeQuorumRequest(
        [
            DescribeQuorumRequestTopicData(
                "__cluster_metadata", [DescribeQuorumRequestPartitionData(0)]
            )
        ]
    ),
    ApiKey.UNREGISTER_BROKER: lambda _: UnregisterBrokerRequest(broker_id=999_999),
}

# Advertised for librdkafka before 2.11.1, and refused, as Kafka does (KAFKA-18659).
_ADVERTISED_ONLY = {ApiKey.PRODUCE: {0, 1, 2}}

APIS = [ApiKey(key) for key in SERVED]
"""All of the gateway's table: one that is new there is asked here, too."""


@pytest.mark.parametrize("key", APIS, ids=[key.name.lower() for key in APIS])
def test_every_advertised_version(connection: RawConnection, group: str, key: ApiKey) -> None:
    offered = {api.api_key: api for api in connection.ask(CLIENT, 3).api_keys}[key]
    codec = request_codec(key)
    last = min(offered.max_version, codec.max_version)
    versions = set(range(offered.min_version, last + 1)) - _ADVERTISED_ONLY.get(key, set())
    assert versions
    for version in sorted(versions):
        connection.ask(_request(key, version, group), version)


def test_the_broker_advertises_nothing_else(cluster: Cluster, connection: RawConnection) -> None:
    if cluster.mode != "kafka":
        assert [api.api_key for api in connection.ask(CLIENT, 3).api_keys] == APIS
