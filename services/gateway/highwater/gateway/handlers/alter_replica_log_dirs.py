"""AlterReplicaLogDirs v1-2: in which of a broker's log directories replicas are to be (KIP-113).

Behaviour
- As in Kafka a broker answers for its own replicas, and the port determines the broker. A port that
  stands for none answers for the only node; of several it has no replica.
- Without ALTER on the cluster: CLUSTER_AUTHORIZATION_FAILED for every partition.
- Each partition has a result of its own, found in the order of Kafka's `ReplicaManager`: a directory
  that the broker does not have is LOG_DIR_NOT_FOUND, one that is offline KAFKA_STORAGE_ERROR, a
  partition that does not exist UNKNOWN_TOPIC_OR_PARTITION, and one without a replica here
  REPLICA_NOT_AVAILABLE. A replica that is in the directory already needs nothing: NONE.
- Of several directories for one partition the last one counts.

Deviations
- Nothing moves: a replica that is in another directory stays there, with INVALID_REQUEST.
- A directory for a replica that is not here yet is not remembered.

Version notes
- v2: flexible.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.log_dirs import ask_log_dirs
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import alter_replica_log_dirs as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.cluster import TopicState
from highwater.model.ids import NodeId

_Topic = codec.AlterReplicaLogDirsResponseAlterReplicaLogDirTopicResult
_Partition = codec.AlterReplicaLogDirsResponseAlterReplicaLogDirPartitionResult

_Wanted: TypeAlias = dict[str, dict[int, str]]
"""The directory of each partition, by topic; in the order of the answer."""


async def handle(
    context: RequestContext, request: codec.AlterReplicaLogDirsRequest
) -> codec.AlterReplicaLogDirsResponse:
    """Compares with what the node says of its directories."""
    if not context.allows(AclOperation.ALTER, THE_CLUSTER):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted, node = _wanted(request), _node(context)
    instance = context.peer.instance
    topics = {name: context.backend.image.topic(name, instance) for name in wanted}
    if node is None:
        return failure(request, context.api_version, ErrorCode.REPLICA_NOT_AVAILABLE)
    question = pb.DescribeLogDirsRequest(instance=instance)
    for name, topic in topics.items():
        if topic is not None:
            numbers = [number for number in wanted[name] if 0 <= number < len(topic.partitions)]
            question.topics.add(topic_id=topic.topic_id, partitions=numbers)
    told = await ask_log_dirs(context, node, question)
    if isinstance(told, ErrorCode):
        return failure(request, context.api_version, told)
    dirs = {each.path: each for each in told.dirs}
    return _response(
        {
            name: {
                number: _code(dirs, path, topics[name], number)
                for number, path in partitions.items()
            }
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


def _code(
    dirs: Mapping[str, pb.LogDirDescription], path: str, topic: TopicState | None, number: int
) -> int:
    directory = dirs.get(path)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if directory.error_code:
        return directory.error_code
    if topic is None or not 0 <= number < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if _holds(directory.replicas, topic, number):
        return ErrorCode.NONE
    if any(_holds(other.replicas, topic, number) for other in dirs.values()):
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.REPLICA_NOT_AVAILABLE


def _holds(replicas: Iterable[pb.LogDirReplica], topic: TopicState, number: int) -> bool:
    return any(each.topic_id == topic.topic_id and each.partition == number for each in replicas)


def _response(codes: Mapping[str, Mapping[int, int]]) -> codec.AlterReplicaLogDirsResponse:
    return codec.AlterReplicaLogDirsResponse(
        results=[
            _Topic(name, [_Partition(number, code) for number, code in partitions.items()])
            for name, partitions in codes.items()
        ]
    )
