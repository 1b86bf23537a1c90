"""DescribeLogDirs v1-5: the replicas in a broker's log directories, and the space that is left.

Behaviour
- As in Kafka a broker answers for itself, and the port determines the broker; tools ask all of
  them. A port that stands for no broker answers for all.
- Without DESCRIBE on the cluster nothing is listed, with CLUSTER_AUTHORIZATION_FAILED at the top (v3+).
- Clients of another instance than the default one are told no space, which others use: -1.
- Null topics mean all topics of the instance; missing topics and partitions are left out.
- An offline directory has KAFKA_STORAGE_ERROR. If a broker cannot be asked,
  BROKER_NOT_AVAILABLE is at the top (v3+), or in place of a directory.
- A replica that moves to another directory is listed there, too, as the future one. Its lag is how
  many records its copy lacks, its size what is copied. One that waits for its turn is listed as well.
- The lag of all others is 0: Kafka compares the log's end with the replica's own high watermark,
  which is never ahead of it.

Version notes
- v2: flexible. v3: error code at the top. v4: total and usable bytes (KIP-827).
- v5: cordoned directories (KIP-1066), of which there are none.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.log_dirs import ask_log_dirs
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import describe_log_dirs as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER
from highwater.model.ids import DEFAULT_INSTANCE, TopicId

_Result = codec.DescribeLogDirsResponseDescribeLogDirsResult
_Topic = codec.DescribeLogDirsResponseDescribeLogDirsTopic
_Partition = codec.DescribeLogDirsResponseDescribeLogDirsPartition

_FIRST_WITH_CODE = 3
UNKNOWN_BYTES: Final = -1
"""Kafka: `DescribeLogDirsResponse.UNKNOWN_VOLUME_BYTES`."""


async def handle(
    context: RequestContext, request: codec.DescribeLogDirsRequest
) -> codec.DescribeLogDirsResponse:
    """Asks the nodes."""
    if not context.allows(AclOperation.DESCRIBE, THE_CLUSTER):
        return codec.DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    asked = _question(context, request)
    only = context.peer.node
    nodes = sorted(context.backend.image.nodes) if only is None else [only]
    async with asyncio.TaskGroup() as tasks:
        answers = [tasks.create_task(ask_log_dirs(context, node, asked)) for node in nodes]
    parts = [answer.result() for answer in answers]
    code = next((part for part in parts if isinstance(part, ErrorCode)), ErrorCode.NONE)
    results = [
        _result(context, directory)
        for part in parts
        if not isinstance(part, ErrorCode)
        for directory in part.dirs
    ]
    if code and not results:
        return failure(request, context.api_version, code)
    return codec.DescribeLogDirsResponse(error_code=code, results=results)


def failure(
    _request: codec.DescribeLogDirsRequest, version: int, code: int
) -> codec.DescribeLogDirsResponse:
    """The code at the top; before v3 at a directory without a name."""
    if version >= _FIRST_WITH_CODE:
        return codec.DescribeLogDirsResponse(error_code=code)
    return codec.DescribeLogDirsResponse(results=[_Result(error_code=code)])


def _question(
    context: RequestContext, request: codec.DescribeLogDirsRequest
) -> pb.DescribeLogDirsRequest:
    instance = context.peer.instance
    asked = pb.DescribeLogDirsRequest(instance=instance, all_topics=request.topics is None)
    for wanted in request.topics or ():
        topic = context.backend.image.topic(wanted.topic, instance)
        if topic is not None:
            partitions = [number for number in wanted.partitions if number >= 0]
            asked.topics.add(topic_id=topic.topic_id, partitions=partitions)
    return asked


def _result(context: RequestContext, directory: pb.LogDirDescription) -> _Result:
    shows_space = context.peer.instance == DEFAULT_INSTANCE
    return _Result(
        error_code=directory.error_code,
        log_dir=directory.path,
        topics=_topics(context, directory.replicas),
        total_bytes=directory.total_bytes if shows_space else UNKNOWN_BYTES,
        usable_bytes=directory.usable_bytes if shows_space else UNKNOWN_BYTES,
    )


def _topics(context: RequestContext, replicas: Iterable[pb.LogDirReplica]) -> list[_Topic]:
    """Replicas by topic, without those of topics that have been deleted."""
    found: dict[str, list[_Partition]] = {}
    for replica in replicas:
        topic = context.backend.image.topics.get(TopicId(replica.topic_id))
        if topic is not None and topic.instance == context.peer.instance:
            partition = _Partition(
                replica.partition, replica.size_bytes, replica.offset_lag, replica.is_future
            )
            found.setdefault(topic.name, []).append(partition)
    return [_Topic(name, partitions) for name, partitions in found.items()]
