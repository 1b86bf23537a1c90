"""What a node says of its log directories, or why it cannot be asked."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.errors import kafka_code
from highwater.hop.ports import NodeLink
from highwater.kafka.error_codes import ErrorCode
from highwater.model.errors import HighwaterError, UnreachableError
from highwater.model.ids import NodeId

_Answer = TypeVar("_Answer")


async def ask_log_dirs(
    context: RequestContext, node: NodeId, question: pb.DescribeLogDirsRequest
) -> pb.DescribeLogDirsResponse | ErrorCode:
    """Asks one node. BROKER_NOT_AVAILABLE if there is no way to it."""
    return await _ask(context, node, lambda link, time: link.describe_log_dirs(question, time))


async def alter_log_dirs(
    context: RequestContext, node: NodeId, changes: pb.AlterLogDirsRequest
) -> pb.AlterLogDirsResponse | ErrorCode:
    """Tells one node in which directories replicas are to be; errors as in `ask_log_dirs`."""
    return await _ask(context, node, lambda link, time: link.alter_log_dirs(changes, time))


async def _ask(
    context: RequestContext, node: NodeId, ask: Callable[[NodeLink, float], Awaitable[_Answer]]
) -> _Answer | ErrorCode:
    link = context.backend.link_to(node)
    if link is None:
        return ErrorCode.BROKER_NOT_AVAILABLE
    timeout_s = context.backend.settings.request_timeout_ms / 1000
    try:
        return await ask(link, timeout_s)
    except HighwaterError as error:
        context.warn("node_not_asked", kind=str(node), node=node, error=str(error))
        if isinstance(error, UnreachableError):
            return ErrorCode.BROKER_NOT_AVAILABLE
        return kafka_code(error)
