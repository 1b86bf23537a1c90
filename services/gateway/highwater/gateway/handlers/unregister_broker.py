"""UnregisterBroker v0: the controller forgets a node that has ended (KIP-631).

Behaviour
- Clients of another instance than the default one: CLUSTER_AUTHORIZATION_FAILED (see `operates`).
- The end of a decommission, as `highwater node remove`: the node is not known any more.
- An id that is not registered is BROKER_ID_NOT_REGISTERED. A node that is alive, or still has
  replicas, is INVALID_REQUEST with a message that says so.
- Needs ALTER on the cluster; otherwise CLUSTER_AUTHORIZATION_FAILED.

Deviations
- Kafka forgets brokers that live or have replicas, too; the replicas are lost with them.
"""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.handling.admin_calls import await_visible, call_timeout_s
from highwater.gateway.handling.authorization import operates
from highwater.gateway.handling.context import RequestContext
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import unregister_broker as codec
from highwater.model.acl_operations import AclOperation


async def handle(
    context: RequestContext, request: codec.UnregisterBrokerRequest
) -> codec.UnregisterBrokerResponse:
    """Asks the controller."""
    if not operates(context, AclOperation.ALTER):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return failure(request, context.api_version, code)
    response = await context.backend.controller.remove_node(
        pb.RemoveNodeRequest(node_id=request.broker_id, instance=context.peer.instance),
        timeout_s=call_timeout_s(context),
    )
    error = response.error
    if error.error_code:
        message = error.message or ErrorCode(error.error_code).message
        return codec.UnregisterBrokerResponse(error_code=error.error_code, error_message=message)
    await await_visible(context, response.revision)
    return codec.UnregisterBrokerResponse()


def failure(
    _request: codec.UnregisterBrokerRequest, _version: int, code: int
) -> codec.UnregisterBrokerResponse:
    """The code and its message."""
    return codec.UnregisterBrokerResponse(error_code=code, error_message=ErrorCode(code).message)
