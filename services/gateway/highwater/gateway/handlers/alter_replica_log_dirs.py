"""AlterReplicaLogDirs v1-2: in which of a broker's log directories replicas are to be (KIP-113).

Behaviour
- Clients of another instance than the default one: CLUSTER_AUTHORIZATION_FAILED (see `operates`).
- As in Kafka a broker answers for its own replicas, and the port determines the broker. A port that
  stands for none answers for the only node; of several it has no replica.
- Without ALTER on the cluster: CLUSTER_AUTHORIZATION_FAILED for every partition.
- Each partition has a result of its own, found in the order of Kafka's `ReplicaManager`: a directory
  that the broker does not have is LOG_DIR_NOT_FOUND, one that is offline KAFKA_STORAGE_ERROR, a
  partition that does not exist UNKNOWN_TOPIC_OR_PARTITION, and one without a replica here
  REPLICA_NOT_AVAILABLE. A name that is too long for that of a copy is INVALID_TOPIC_EXCEPTION.
- A replica that is in another directory begins to move: NONE, which does not say that it has moved.
  DescribeLogDirs tells. A replica that is in the directory already needs nothing. Either ends a move
  to another directory. Moves go on after a restart.
- The broker remembers the directory of a replica that is not here yet, until it stops, and creates
  the log there.
- Of several directories for one partition the last one counts.

Deviations
- A move that cannot be completed, on a full disk for example, ends with a warning in the broker's
  log, and the replica stays where it is. In Kafka the directory that failed goes offline.
- If the remembered directory is offline when the log is created, another one is taken; in Kafka the
  replica is offline then.

Version notes
- v2: flexible.
"""

from collections.abc import Mapping
from typing import TypeAlias

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.authorization import operates
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.log_dirs import alter_log_dirs
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import alter_replica_log_dirs as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.ids import NodeId

_Topic = codec.AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult
_Partition = codec.AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult

_Wanted: TypeAlias = dict[str, dict[int, str]]
"""The directory of each partition, by topic; in the order of the answer."""


async def handle(
    context: RequestContext, request: codec.AlterReplicaLogDirsRequest
) -> codec.AlterReplicaLogDirsResponse:
    """Asks the node, also about partitions that do not exist: a wrong directory is told first."""
    if not operates(context, AclOperation.ALTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted, node = _wanted(request), _node(context)
    if node is None:
        return failure(request, context.api_version, ErrorCode.REPLICA_NOT_AVAILABLE)
    paths: dict[str, int] = {}
    changes = pb.AlterLogDirsRequest()
    for name, partitions in wanted.items():
        topic = context.backend.image.topic(name, context.peer.instance)
        for number, path in partitions.items():
            change = changes.changes.add(path=paths.setdefault(path, len(paths)))
            if topic is not None and 0 <= number < len(topic.partitions):
                change.topic_id, change.partition = topic.topic_id, number
    changes.paths.extend(paths)
    told = await alter_log_dirs(context, node, changes)
    if isinstance(told, ErrorCode):
        return failure(request, context.api_version, told)
    codes = iter(told.error_codes)
    return _response(
        {
            name: {number: next(codes) for number in partitions}
            for name, partitions in wanted.items()
        }
    )


def failure(
    request: codec.AlterReplicaLogDirsRequest, _version: int, code: int
) -> codec.AlterReplicaLogDirsResponse:
    """The code for every partition."""
    wanted = _wanted(request)
    return _response({name: dict.fromkeys(numbers, code) for name, numbers in wanted.items()})


def _wanted(request: codec.AlterReplicaLogDirsRequest) -> _Wanted:
    wanted: _Wanted = {}
    for directory in request.dirs:
        for topic in directory.topics:
            partitions = wanted.setdefault(topic.name, {})
            partitions.update(dict.fromkeys(topic.partitions, directory.path))
    return wanted


def _node(context: RequestContext) -> NodeId | None:
    """The broker that answers; None if the port stands for none and there are several."""
    nodes = tuple(context.backend.image.nodes)
    if context.peer.node is None and len(nodes) == 1:
        return nodes[0]
    return context.peer.node


def _response(codes: Mapping[str, Mapping[int, int]]) -> codec.AlterReplicaLogDirsResponse:
    return codec.AlterReplicaLogDirsResponse(
        results=[
            _Topic(name, [_Partition(number, code) for number, code in partitions.items()])
            for name, partitions in codes.items()
        ]
    )
