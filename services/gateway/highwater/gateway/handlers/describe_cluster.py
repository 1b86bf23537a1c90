"""DescribeCluster v0-2: the brokers, the controller and the cluster's id (KIP-700).

Behaviour
- Every client may see the brokers. The authorized operations, if asked for, are none without DESCRIBE
  on the cluster.
- Brokers and controller are the same as in Metadata, without fenced brokers.
- v1: clients can ask for controllers (KIP-919); brokers refuse that with MISMATCHED_ENDPOINT_TYPE,
  and an unknown endpoint type with UNSUPPORTED_ENDPOINT_TYPE.
- v2: if the client asks for them, fenced brokers are listed, too, and marked (KIP-1073).
"""

from typing import Final

from highwater.gateway.handling.authorization import cluster_operations
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.routing.brokers import (
    controller_among,
    live_brokers,
    registered_brokers,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseDescribeClusterBroker,
)
from highwater.model.acl_operations import NOT_ASKED

BROKERS: Final = 1
CONTROLLERS: Final = 2


async def handle(
    context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Answers from the newest image."""
    version = context.api_version
    if request.endpoint_type == CONTROLLERS:
        return failure(request, version, ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    if request.endpoint_type != BROKERS:
        return failure(request, version, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
    image = context.backend.image
    entrance = context.peer.entrance
    live = live_brokers(image, entrance)
    brokers = registered_brokers(image, entrance) if request.include_fenced_brokers else live
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=controller_among(live),
        brokers=[
            DescribeClusterResponseDescribeClusterBroker(
                broker.node_id, broker.host, broker.port, broker.rack or None, broker.fenced
            )
            for broker in brokers
        ],
        cluster_authorized_operations=(
            cluster_operations(context)
            if request.include_cluster_authorized_operations
            else NOT_ASKED
        ),
    )


def failure(request: DescribeClusterRequest, _version: int, code: int) -> DescribeClusterResponse:
    """The code and its message."""
    return DescribeClusterResponse(
        error_code=code,
        error_message=ErrorCode(code).message,
        endpoint_type=request.endpoint_type,
    )
