"""Broker loggers: the levels of a node's process, which the node is asked for (KIP-412)."""

from collections.abc import Mapping
from typing import NamedTuple

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.gateway.handling.admin_calls import call_timeout_s
from highwater.gateway.handling.context import RequestContext
from highwater.gateway.handling.errors import kafka_code
from highwater.kafka.error_codes import ErrorCode
from highwater.model.errors import HighwaterError, UnreachableError
from highwater.model.ids import DEFAULT_INSTANCE, NodeId


class LoggersError(NamedTuple):
    """Why levels cannot be told or changed."""

    error_code: int
    message: str


def node_of_loggers(context: RequestContext, name: str) -> NodeId | LoggersError:
    """The node that a resource names. As in Kafka the name is never empty."""
    if not name:
        return LoggersError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    node = NodeId(int(name)) if name.isdecimal() else None
    if node is None or node not in context.backend.image.nodes:
        return LoggersError(ErrorCode.INVALID_REQUEST, f"there is no broker '{name}'")
    return node


async def logger_levels(context: RequestContext, node: NodeId) -> Mapping[str, str] | LoggersError:
    """Levels in effect, by logger."""
    link = context.backend.link_to(node)
    if link is None:
        return _not_available(node)
    try:
        answer = await link.describe_loggers(pb.DescribeLoggersRequest(), call_timeout_s(context))
    except HighwaterError as error:
        return _not_asked(context, node, error)
    return answer.levels


async def alter_loggers(
    context: RequestContext,
    node: NodeId,
    levels: Mapping[str, str | None],
    *,
    validate_only: bool,
) -> LoggersError | None:
    """Changes all of the levels or none; None for a level lets root's hold.

    Instances share the brokers, so that only clients of the default one may change them.
    """
    if context.peer.instance != DEFAULT_INSTANCE:
        why = f"loggers of brokers are shared with other instances: '{context.peer.instance}' has none"
        return LoggersError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, why)
    link = context.backend.link_to(node)
    if link is None:
        return _not_available(node)
    changes = [pb.LoggerChange(logger=name, level=level) for name, level in levels.items()]
    request = pb.AlterLoggersRequest(changes=changes, validate_only=validate_only)
    try:
        answer = await link.alter_loggers(request, call_timeout_s(context))
    except HighwaterError as error:
        return _not_asked(context, node, error)
    return LoggersError(answer.error_code, answer.message) if answer.error_code else None


def _not_available(node: NodeId) -> LoggersError:
    return LoggersError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node} is not available")


def _not_asked(context: RequestContext, node: NodeId, error: HighwaterError) -> LoggersError:
    context.warn("node_not_asked", kind=str(node), node=node, error=str(error))
    if isinstance(error, UnreachableError):
        return _not_available(node)
    code = kafka_code(error)
    return LoggersError(code, code.message)
