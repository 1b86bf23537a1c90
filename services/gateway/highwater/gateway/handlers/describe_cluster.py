"""DescribeCluster v0-1: the brokers, the controller and the cluster's id (KIP-700).

Behaviour
- The same brokers and controller as in Metadata, fenced ones among them.
- v1: controllers can be asked for (KIP-919); brokers refuse that with MISMATCHED_ENDPOINT_TYPE,
  and an endpoint type that nobody knows with UNSUPPORTED_ENDPOINT_TYPE.

Version notes
- v2 (which brokers are fenced) comes with node maintenance.
"""

from typing import Final

from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.operations import CLUSTER_OPERATIONS, NOT_ASKED
from highwater.gateway.routing.brokers import controller_among, visible_brokers
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseDescribeClusterBroker,
)

BROKERS: Final = 1
CONTROLLERS: Final = 2


async def handle(
    context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Answers from the newest image; fenced nodes only to those who ask for them (KIP-1073)."""
    version = context.api_version
    if request.endpoint_type == CONTROLLERS:
        return failure(request, version, ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    if request.endpoint_type != BROKERS:
        return failure(request, version, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
    image = context.backend.image
    brokers = visible_brokers(image)
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=controller_among(brokers),
        brokers=[
            DescribeClusterResponseDescribeClusterBroker(
                broker.node_id, broker.host, broker.port, broker.rack or None, broker.fenced
            )
            for broker in brokers
            if request.include_fenced_brokers or not broker.fenced
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def failure(request: DescribeClusterRequest, _version: int, code: int) -> DescribeClusterResponse:
    """The code, with its sentence for people."""
    return DescribeClusterResponse(
        error_code=code,
        error_message=ErrorCode(code).message,
        endpoint_type=request.endpoint_type,
    )
