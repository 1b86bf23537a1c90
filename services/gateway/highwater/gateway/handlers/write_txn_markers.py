"""WriteTxnMarkers v1-2: ends transactions in the logs of partitions (KIP-98).

Coordinators have a way of their own to leaders; this one is for tools, such as `kafka-transactions abort`
for a transaction that no coordinator will end (KIP-664).

Behaviour
- Needs ALTER or CLUSTER_ACTION on the cluster, otherwise every partition is
  CLUSTER_AUTHORIZATION_FAILED.
- Leaders answer, when the marker is committed; each is asked once for all markers. A partition that does
  not exist is UNKNOWN_TOPIC_OR_PARTITION, one without a leader NOT_LEADER_OR_FOLLOWER.
- Nobody is asked about a producer with a negative id or epoch: INVALID_REQUEST.

Version notes
- v1: flexible. v2: transaction.version of the producer (KIP-1228).

Deviations
- Any gateway takes a request for any leader; Kafka's broker answers NOT_LEADER_OR_FOLLOWER for others'.
- A negative id or epoch is an exception in Kafka's broker, and UNKNOWN_SERVER_ERROR for all markers.
"""

from collections.abc import Sequence
from typing import NamedTuple

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.fan_out import Routed, ask_leaders, route_of
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import write_txn_markers as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER

_Marker = codec.WriteTxnMarkersRequestWritableTxnMarker
_MarkerResult = codec.WriteTxnMarkersResponseWritableTxnMarkerResult
_TopicResult = codec.WriteTxnMarkersResponseWritableTxnMarkerTopicResult
_PartitionResult = codec.WriteTxnMarkersResponseWritableTxnMarkerPartitionResult


class _Place(NamedTuple):
    """A partition of a marker, which is named by its position."""

    marker: int
    topic: str
    partition: int


class _Question(NamedTuple):
    """One marker for one partition."""

    marker: int
    where: pb.TxnMarkerPartition


async def handle(
    context: RequestContext, request: codec.WriteTxnMarkersRequest
) -> codec.WriteTxnMarkersResponse:
    """Asks the leaders."""
    if not _allowed(context):
        return failure(request, context.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    codes: dict[_Place, int] = {}
    questions: list[Routed[_Question]] = []
    asked: list[_Place] = []
    for m, marker in enumerate(request.markers):
        for topic in marker.topics:
            for index in topic.partition_indexes:
                place = _Place(m, topic.name, index)
                if place in codes:
                    continue  # A partition that is named twice gets one marker.
                routed = _question(context, m, marker, topic.name, index)
                codes[place] = ErrorCode.NONE if isinstance(routed, Routed) else routed
                if isinstance(routed, Routed):
                    questions.append(routed)
                    asked.append(place)
    timeout_s = context.backend.settings.request_timeout_ms / 1000

    async def ask(link: NodeLink, some: list[_Question]) -> Sequence[int]:
        wanted = pb.WriteTxnMarkersRequest(
            markers=[_marker(request.markers[one.marker], one.where) for one in some]
        )
        return (await link.write_txn_markers(wanted, timeout_s)).error_codes

    answers = await ask_leaders(context, questions, ask, lambda code: code)
    codes.update(zip(asked, answers, strict=True))
    return _response(
        request,
        [
            [
                [codes[_Place(m, topic.name, index)] for index in topic.partition_indexes]
                for topic in marker.topics
            ]
            for m, marker in enumerate(request.markers)
        ],
    )


def failure(
    request: codec.WriteTxnMarkersRequest, _version: int, code: int
) -> codec.WriteTxnMarkersResponse:
    """The code for every partition of every marker."""
    return _response(
        request,
        [
            [[code] * len(topic.partition_indexes) for topic in marker.topics]
            for marker in request.markers
        ],
    )


def _allowed(context: RequestContext) -> bool:
    return context.allows(AclOperation.ALTER, THE_CLUSTER) or context.allows(
        AclOperation.CLUSTER_ACTION, THE_CLUSTER
    )


def _question(
    context: RequestContext, number: int, marker: _Marker, topic: str, index: int
) -> Routed[_Question] | ErrorCode:
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        return ErrorCode.INVALID_REQUEST
    way = route_of(context, topic, index)
    if isinstance(way, ErrorCode):
        return way
    route, link = way
    where = pb.TxnMarkerPartition(
        topic_id=route.topic_id, partition=route.partition, leader_epoch=route.leader_epoch
    )
    return Routed(link, _Question(number, where))


def _marker(marker: _Marker, where: pb.TxnMarkerPartition) -> pb.TxnMarker:
    """The marker for one partition: answers then are in the order of the markers."""
    return pb.TxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        committed=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
        partitions=[where],
    )


def _response(
    request: codec.WriteTxnMarkersRequest, codes: Sequence[Sequence[Sequence[int]]]
) -> codec.WriteTxnMarkersResponse:
    """`codes` by marker, topic and partition."""
    return codec.WriteTxnMarkersResponse(
        markers=[
            _MarkerResult(
                marker.producer_id,
                [
                    _TopicResult(
                        topic.name,
                        [
                            _PartitionResult(index, code)
                            for index, code in zip(topic.partition_indexes, found, strict=True)
                        ],
                    )
                    for topic, found in zip(marker.topics, of_marker, strict=True)
                ],
            )
            for marker, of_marker in zip(request.markers, codes, strict=True)
        ]
    )
