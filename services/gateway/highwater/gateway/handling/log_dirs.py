"""What a node says of its log directories, or why it cannot be asked."""

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.errors import kafka_code
from highwater.kafka.error_codes import ErrorCode
from highwater.model.errors import HighwaterError, UnreachableError
from highwater.model.ids import NodeId


async def ask_log_dirs(
    context: RequestContext, node: NodeId, question: pb.DescribeLogDirsRequest
) -> pb.DescribeLogDirsResponse | ErrorCode:
    """Asks one node. BROKER_NOT_AVAILABLE if there is no way to it."""
    link = context.backend.link_to(node)
    if link is None:
        return ErrorCode.BROKER_NOT_AVAILABLE
    timeout_s = context.backend.settings.request_timeout_ms / 1000
    try:
        return await link.describe_log_dirs(question, timeout_s)
    except HighwaterError as error:
        context.warn("node_not_asked", kind=str(node), node=node, error=str(error))
        if isinstance(error, UnreachableError):
            return ErrorCode.BROKER_NOT_AVAILABLE
        return kafka_code(error)
