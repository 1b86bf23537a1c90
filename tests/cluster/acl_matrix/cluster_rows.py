"""Rows of requests about the cluster: its configs, nodes, users, quotas and ACLs."""

from __future__ import annotations

from typing import Any

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import alter_client_quotas as quotas
from highwater.kafka.messages import alter_configs as replacing
from highwater.kafka.messages import alter_partition_reassignments as moving
from highwater.kafka.messages import alter_replica_log_dirs as moving_dirs
from highwater.kafka.messages import alter_user_scram_credentials as users
from highwater.kafka.messages import create_acls, delete_acls, describe_acls
from highwater.kafka.messages import describe_configs as configs
from highwater.kafka.messages import describe_quorum as quorum
from highwater.kafka.messages import elect_leaders as electing
from highwater.kafka.messages import incremental_alter_configs as changing
from highwater.kafka.messages.create_delegation_token import CreateDelegationTokenRequest
from highwater.kafka.messages.describe_client_quotas import DescribeClientQuotasRequest
from highwater.kafka.messages.describe_log_dirs import DescribeLogDirsRequest
from highwater.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from highwater.kafka.messages.list_config_resources import ListConfigResourcesRequest
from highwater.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from highwater.kafka.messages.unregister_broker import UnregisterBrokerRequest
from highwater.kafka.messages.update_features import UpdateFeaturesRequest
from highwater.model.config_type import ConfigResourceType
from tests.cluster.acl_matrix.rows import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    OWNER,
    TOKEN_DENIED,
    TOPIC_DENIED,
    C,
    G,
    Names,
    Need,
    Op,
    Row,
    T,
    U,
    first,
    top,
)

_ANY, _TOPIC, _LITERAL, _READ, _ALLOW = 1, 2, 3, 3, 3
_ABSENT_NODE = 9_999
_ALTER = (Need(Op.ALTER, C),)
_DESCRIBE = (Need(Op.DESCRIBE, C),)


def _name(names: Names, kind: int) -> str:
    if kind == ConfigResourceType.TOPIC:
        return names.topic
    return names.group if kind == ConfigResourceType.GROUP else str(names.node)


def _describe(names: Names, kind: int) -> Any:
    wanted = configs.DescribeConfigsRequestDescribeConfigsResource(kind, _name(names, kind), None)
    return configs.DescribeConfigsRequest([wanted])


def _replace(names: Names, kind: int) -> Any:
    wanted = replacing.AlterConfigsRequestAlterConfigsResource(kind, _name(names, kind), [])
    return replacing.AlterConfigsRequest([wanted], validate_only=True)


def _change(names: Names, kind: int) -> Any:
    wanted = changing.IncrementalAlterConfigsRequestAlterConfigsResource(
        kind, _name(names, kind), []
    )
    return changing.IncrementalAlterConfigsRequest([wanted], validate_only=True)


def _config_rows() -> tuple[Row, ...]:
    made: list[Row] = []
    for kind, resource, denied in (
        (ConfigResourceType.TOPIC, T, TOPIC_DENIED),
        (ConfigResourceType.GROUP, G, GROUP_DENIED),
        (ConfigResourceType.BROKER, C, CLUSTER_DENIED),
        (ConfigResourceType.BROKER_LOGGER, C, CLUSTER_DENIED),
        (ConfigResourceType.CLIENT_METRICS, C, CLUSTER_DENIED),
    ):
        name = kind.name.lower()
        describing = Row(
            name=name,
            request=lambda names, kind=kind: _describe(names, kind),
            version=4,
            code=first("results"),
            needs=(Need(Op.DESCRIBE_CONFIGS, resource),),
            denied=denied,
        )
        altering = Row(
            name=name,
            request=lambda names, kind=kind: _change(names, kind),
            version=1,
            code=first("responses"),
            needs=(Need(Op.ALTER_CONFIGS, resource),),
            denied=denied,
        )
        made += [describing, altering]
        if kind != ConfigResourceType.BROKER_LOGGER:  # Not a thing that AlterConfigs can do.
            made.append(
                Row(
                    name=name,
                    request=lambda names, kind=kind: _replace(names, kind),
                    version=2,
                    code=first("responses"),
                    needs=(Need(Op.ALTER_CONFIGS, resource),),
                    denied=denied,
                )
            )
    return tuple(made)


def _move(names: Names) -> Any:
    part = moving.AlterPartitionReassignmentsRequestReassignablePartition(0, None)
    topic = moving.AlterPartitionReassignmentsRequestReassignableTopic(names.topic, [part])
    return moving.AlterPartitionReassignmentsRequest(10_000, topics=[topic])


def _elect(names: Names) -> Any:
    topic = electing.ElectLeadersRequestTopicPartitions(names.topic, [0])
    return electing.ElectLeadersRequest(0, [topic], 10_000)


def _move_dir(names: Names) -> Any:
    topic = moving_dirs.AlterReplicaLogDirsRequestAlterReplicaLogDirTopic(names.topic, [0])
    return moving_dirs.AlterReplicaLogDirsRequest(
        [moving_dirs.AlterReplicaLogDirsRequestAlterReplicaLogDir("/no/such/directory", [topic])]
    )


def _quota(_names: Names) -> Any:
    entity = quotas.AlterClientQuotasRequestEntityData("user", "nobody")
    change = quotas.AlterClientQuotasRequestOpData("producer_byte_rate", 1_000.0)
    entry = quotas.AlterClientQuotasRequestEntryData([entity], [change])
    return quotas.AlterClientQuotasRequest([entry], validate_only=True)


def _quorum(_names: Names) -> Any:
    topic = quorum.DescribeQuorumRequestTopicData(
        "__cluster_metadata", [quorum.DescribeQuorumRequestPartitionData(0)]
    )
    return quorum.DescribeQuorumRequest([topic])


CLUSTER_ROWS = (
    *_config_rows(),
    Row(
        name="",
        request=_elect,
        version=2,
        code=first("replica_election_results", "partition_result"),
        needs=_ALTER,
        denied=CLUSTER_DENIED,
        allowed=frozenset((ErrorCode.ELECTION_NOT_NEEDED,)),
    ),
    Row(
        name="",
        request=_move,
        version=0,
        code=first("responses", "partitions"),
        needs=_ALTER,
        denied=CLUSTER_DENIED,
        allowed=frozenset((ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,)),
    ),
    Row(
        name="",
        request=lambda _names: ListPartitionReassignmentsRequest(10_000, None),
        version=0,
        code=top,
        needs=_DESCRIBE,
        denied=CLUSTER_DENIED,
    ),
    Row(
        name="",
        request=_move_dir,
        version=2,
        code=first("results", "partitions"),
        needs=_ALTER,
        denied=CLUSTER_DENIED,
        allowed=frozenset((ErrorCode.LOG_DIR_NOT_FOUND,)),
    ),
    Row(
        name="",
        request=lambda _names: DescribeLogDirsRequest(None),
        version=4,
        code=top,
        needs=_DESCRIBE,
        denied=CLUSTER_DENIED,
    ),
    Row(
        name="",
        request=lambda _names: DescribeClientQuotasRequest(),
        version=1,
        code=top,
        needs=(Need(Op.DESCRIBE_CONFIGS, C),),
        denied=CLUSTER_DENIED,
    ),
    Row(
        name="",
        request=_quota,
        version=1,
        code=first("entries"),
        needs=(Need(Op.ALTER_CONFIGS, C),),
        denied=CLUSTER_DENIED,
    ),
    Row(
        name="",
        request=lambda _names: DescribeUserScramCredentialsRequest(None),
        version=0,
        code=top,
        needs=_DESCRIBE,
        denied=CLUSTER_DENIED,
    ),
    Row(
        name="",
        request=lambda _names: users.AlterUserScramCredentialsRequest(
            [users.AlterUserScramCredentialsRequestScramCredentialDeletion("nobody", 1)]
        ),
        version=0,
        code=first("results"),
        needs=_ALTER,
        denied=CLUSTER_DENIED,
        allowed=frozenset((ErrorCode.RESOURCE_NOT_FOUND,)),
    ),
    Row(
        name="",
        request=_quorum,
        version=1,
        code=top,
        needs=_DESCRIBE,
        denied=CLUSTER_DENIED,
    ),
    Row(
        name="",
        request=lambda _names: UpdateFeaturesRequest(10_000, [], validate_only=True),
        version=1,
        code=top,
        needs=_ALTER,
        denied=CLUSTER_DENIED,
    ),
    Row(
        name="",
        request=lambda _names: UnregisterBrokerRequest(_ABSENT_NODE),
        version=0,
        code=top,
        needs=_ALTER,
        denied=CLUSTER_DENIED,
        allowed=frozenset((ErrorCode.BROKER_ID_NOT_REGISTERED,)),
    ),
    Row(
        name="",
        request=lambda _names: ListConfigResourcesRequest(),
        version=1,
        code=top,
        needs=(Need(Op.DESCRIBE_CONFIGS, C),),
        denied=CLUSTER_DENIED,
    ),
    Row(
        name="",
        request=lambda _names: describe_acls.DescribeAclsRequest(
            _ANY, None, _ANY, None, None, _ANY, _ANY
        ),
        version=3,
        code=top,
        needs=_DESCRIBE,
        denied=CLUSTER_DENIED,
    ),
    Row(
        name="",
        request=lambda names: create_acls.CreateAclsRequest(
            [
                create_acls.CreateAclsRequestAclCreation(
                    _TOPIC, names.topic, _LITERAL, "User:carol", "*", _READ, _ALLOW
                )
            ]
        ),
        version=3,
        code=first("results"),
        needs=_ALTER,
        denied=CLUSTER_DENIED,
    ),
    Row(
        name="",
        request=lambda _names: delete_acls.DeleteAclsRequest(
            [
                delete_acls.DeleteAclsRequestDeleteAclsFilter(
                    _ANY, None, _ANY, "User:dave", None, _ANY, _ANY
                )
            ]
        ),
        version=3,
        code=first("filter_results"),
        needs=_ALTER,
        denied=CLUSTER_DENIED,
    ),
    Row(
        name="of-another-user",
        request=lambda _names: CreateDelegationTokenRequest("User", OWNER, [], -1),
        version=3,
        code=top,
        needs=(Need(Op.CREATE_TOKENS, U),),
        denied=TOKEN_DENIED,
        # Who may ask hears that there are none.
        allowed=frozenset((ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,)),
    ),
)
