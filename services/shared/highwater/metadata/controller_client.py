"""Calls to the active controller, with deadlines, and with retries where these are safe."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import grpc
from google.protobuf.message import Message

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.metadata.endpoints import ControllerEndpoints, Endpoint
from highwater.metadata.status import (
    ACTIVE_KEY,
    code_of,
    details_of,
    is_not_controller,
    is_store_unavailable,
    trailing_value,
)
from highwater.model.errors import HighwaterError, UnreachableError

CALL_TIMEOUT_S_DEFAULT: Final = 10.0
ATTEMPT_TIMEOUT_S: Final = 3.0
"""The limit of one attempt: longer than a slow commit, short enough to try another controller."""

_PAUSE_S: Final = (0.02, 0.5)
"""First and longest pause between attempts; an election takes about as long as a few of them."""

_AGAIN_ELSEWHERE: Final = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,  # The controller does not know whether the call had an effect.
    grpc.StatusCode.CANCELLED,  # It stops, and gives up what is not answered; nobody cancels here.
)

_R = TypeVar("_R", bound=Message)
_Call = tuple[str, Callable[..., Awaitable[_R]]]
"""A method's name, and the stub's callable."""


class ControllerCallError(HighwaterError):
    """The controller refused or failed the whole call; the gRPC status says why."""

    reason = "CONTROLLER_CALL"

    def __init__(self, method: str, code: grpc.StatusCode, details: str) -> None:
        """Keep the status code."""
        super().__init__(f"{method}: {code.name}: {details}")
        self.code = code


class CallOutcomeUnknownError(ControllerCallError):
    """The call was sent, and may or may not have had an effect."""

    reason = "CONTROLLER_OUTCOME_UNKNOWN"


class ControllerClient:
    """Thin client of the ControllerService. Errors of single items are in the responses (ApiError).

    A call goes to the controller that is believed active and follows NOT_CONTROLLER hints. Calls
    that are idempotent are repeated within the timeout; the others only if they had no effect.
    Every method raises UnreachableError (no effect), CallOutcomeUnknownError or
    ControllerCallError.
    """

    def __init__(self, endpoints: ControllerEndpoints) -> None:
        self._endpoints = endpoints
        self._late: tuple[str, float] | None = None
        """The address of a call that took too long since the last answer, and when it ended."""

    async def register_node(
        self, request: pb.RegisterNodeRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.RegisterNodeResponse:
        """Registers an incarnation; the same incarnation may be registered again."""
        return await self._call("RegisterNode", request, pb.RegisterNodeResponse, timeout_s)

    async def register_gateway(
        self, request: pb.RegisterGatewayRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.RegisterGatewayResponse:
        """Registers a gateway; may be repeated."""
        return await self._call("RegisterGateway", request, pb.RegisterGatewayResponse, timeout_s)

    async def heartbeat(
        self, request: pb.HeartbeatRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.HeartbeatResponse:
        """Sends one heartbeat; services use the loops of `highwater.metadata.heartbeat`."""
        return await self._call("Heartbeat", request, pb.HeartbeatResponse, timeout_s)

    async def create_topics(
        self, request: pb.CreateTopicsRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.CreateTopicsResponse:
        """Creates topics; never sent twice."""
        return await self._call(
            "CreateTopics", request, pb.CreateTopicsResponse, timeout_s, once=True
        )

    async def delete_topics(
        self, request: pb.DeleteTopicsRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.DeleteTopicsResponse:
        """Deletes topics; never sent twice."""
        return await self._call(
            "DeleteTopics", request, pb.DeleteTopicsResponse, timeout_s, once=True
        )

    async def create_partitions(
        self, request: pb.CreatePartitionsRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.CreatePartitionsResponse:
        """Adds partitions; never sent twice."""
        return await self._call(
            "CreatePartitions", request, pb.CreatePartitionsResponse, timeout_s, once=True
        )

    async def alter_configs(
        self, request: pb.AlterConfigsRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.AlterConfigsResponse:
        """Sets and deletes configs; may be repeated, as the values are absolute."""
        return await self._call("AlterConfigs", request, pb.AlterConfigsResponse, timeout_s)

    async def allocate_producer_ids(
        self, request: pb.AllocateProducerIdsRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.AllocateProducerIdsResponse:
        """Allocates a block of producer ids; a repeated call at worst wastes one."""
        return await self._call(
            "AllocateProducerIds", request, pb.AllocateProducerIdsResponse, timeout_s
        )

    async def alter_partition(
        self, request: pb.AlterPartitionRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.AlterPartitionResponse:
        """Proposes ISRs, in one attempt at one controller.

        A repeated proposal would be refused because of the state that the first one made, and the
        leader would believe that it failed. After any error the outcome counts as unknown.
        """
        return await self._call(
            "AlterPartition", request, pb.AlterPartitionResponse, timeout_s, once=True, tries=1
        )

    async def elect_leaders(
        self, request: pb.ElectLeadersRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.ElectLeadersResponse:
        """Holds elections; never sent twice, as the second answer would be ELECTION_NOT_NEEDED."""
        return await self._call(
            "ElectLeaders", request, pb.ElectLeadersResponse, timeout_s, once=True
        )

    async def alter_partition_reassignments(
        self,
        request: pb.AlterPartitionReassignmentsRequest,
        *,
        timeout_s: float = CALL_TIMEOUT_S_DEFAULT,
    ) -> pb.AlterPartitionReassignmentsResponse:
        """Starts or cancels reassignments; never sent twice, as a second cancellation would fail."""
        return await self._call(
            "AlterPartitionReassignments",
            request,
            pb.AlterPartitionReassignmentsResponse,
            timeout_s,
            once=True,
        )

    async def decommission_node(
        self, request: pb.DecommissionNodeRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.DecommissionNodeResponse:
        """One step of a decommission; may be repeated."""
        return await self._call("DecommissionNode", request, pb.DecommissionNodeResponse, timeout_s)

    async def remove_node(
        self, request: pb.RemoveNodeRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.RemoveNodeResponse:
        """Removes a node; never sent twice, as the second answer would be an error."""
        return await self._call("RemoveNode", request, pb.RemoveNodeResponse, timeout_s, once=True)

    async def create_instance(
        self, request: pb.CreateInstanceRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.CreateInstanceResponse:
        """Makes an instance; never sent twice, as the second answer would be an error."""
        return await self._call(
            "CreateInstance", request, pb.CreateInstanceResponse, timeout_s, once=True
        )

    async def set_instance(
        self, request: pb.SetInstanceRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.SetInstanceResponse:
        """Replaces what an instance is; may be repeated, but not if it names what was there before."""
        once = request.HasField("previous")
        return await self._call(
            "SetInstance", request, pb.SetInstanceResponse, timeout_s, once=once
        )

    async def delete_instance(
        self, request: pb.DeleteInstanceRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.DeleteInstanceResponse:
        """Deletes an instance; never sent twice, as it may be purged before the second call."""
        return await self._call(
            "DeleteInstance", request, pb.DeleteInstanceResponse, timeout_s, once=True
        )

    async def restore_instance(
        self, request: pb.RestoreInstanceRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.RestoreInstanceResponse:
        """Restores an instance; never sent twice, as the second answer would be an error."""
        return await self._call(
            "RestoreInstance", request, pb.RestoreInstanceResponse, timeout_s, once=True
        )

    async def alter_client_quotas(
        self, request: pb.AlterClientQuotasRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.AlterClientQuotasResponse:
        """Sets and removes client quotas; may be repeated, as the values are absolute."""
        return await self._call(
            "AlterClientQuotas", request, pb.AlterClientQuotasResponse, timeout_s
        )

    async def alter_scram_users(
        self, request: pb.AlterScramUsersRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.AlterScramUsersResponse:
        """Changes credentials; never sent twice, as what is removed would then not be found."""
        return await self._call(
            "AlterScramUsers", request, pb.AlterScramUsersResponse, timeout_s, once=True
        )

    async def describe_scram_users(
        self, request: pb.DescribeScramUsersRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.DescribeScramUsersResponse:
        """Lists credentials; may be repeated."""
        return await self._call(
            "DescribeScramUsers", request, pb.DescribeScramUsersResponse, timeout_s
        )

    async def create_acls(
        self, request: pb.CreateAclsRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.CreateAclsResponse:
        """Adds ACLs; may be repeated, as one that is there is a success."""
        return await self._call("CreateAcls", request, pb.CreateAclsResponse, timeout_s)

    async def delete_acls(
        self, request: pb.DeleteAclsRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.DeleteAclsResponse:
        """Removes ACLs; never sent twice, as what the first has removed would then not be told."""
        return await self._call("DeleteAcls", request, pb.DeleteAclsResponse, timeout_s, once=True)

    async def describe_quorum(
        self, request: pb.DescribeQuorumRequest, *, timeout_s: float = CALL_TIMEOUT_S_DEFAULT
    ) -> pb.DescribeQuorumResponse:
        """Who stands, leads and follows; may be repeated."""
        return await self._call("DescribeQuorum", request, pb.DescribeQuorumResponse, timeout_s)

    async def _call(
        self,
        method: str,
        request: Message,
        _response: type[_R],
        timeout_s: float,
        *,
        once: bool = False,
        tries: int | None = None,
    ) -> _R:
        """`tries` None means as many as the time allows."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        pause_s, pause_s_max = _PAUSE_S
        last = "no controller was reached"
        while (remaining_s := deadline - loop.time()) > 0:
            endpoint, begun_s = self._endpoints.current(), loop.time()
            try:
                call: _Call[_R] = (method, getattr(endpoint.controller, method))
                response = await self._attempt(endpoint, call, request, remaining_s, once)
                self._late = None
                return response
            except (grpc.RpcError, TimeoutError) as error:
                last = self._sort(method, error, endpoint.address, begun_s)
            if tries is not None and (tries := tries - 1) == 0:
                break
            await asyncio.sleep(min(pause_s, max(0.0, deadline - loop.time())))
            pause_s = min(pause_s_max, pause_s * 2)
        raise UnreachableError(f"{method}: no active controller within {timeout_s:g} s: {last}")

    async def _attempt(
        self,
        endpoint: Endpoint,
        call: _Call[_R],
        request: Message,
        remaining_s: float,
        once: bool,
    ) -> _R:
        """Makes one attempt. `once`: the call must not be repeated if its outcome is unknown."""
        method, send = call
        # Connect first: a call that has not been sent surely has no effect.
        begun_s = asyncio.get_running_loop().time()
        async with asyncio.timeout(min(ATTEMPT_TIMEOUT_S, remaining_s)):
            await endpoint.connect()
        timeout_s = remaining_s if once else min(ATTEMPT_TIMEOUT_S, remaining_s)
        try:
            return await send(request, timeout=timeout_s)
        except grpc.RpcError as error:
            if once and not is_not_controller(error) and code_of(error) in _AGAIN_ELSEWHERE:
                self._leave(error, endpoint.address, begun_s)  # For the next call.
                raise CallOutcomeUnknownError(method, code_of(error), details_of(error)) from error
            raise

    def _sort(self, method: str, error: Exception, address: str, begun_s: float) -> str:
        """Raises errors that cannot be retried; otherwise moves to the controller to try next."""
        if isinstance(error, TimeoutError):
            self._endpoints.rotate(address)
            return f"{address} does not accept connections"
        assert isinstance(error, grpc.RpcError)
        if is_not_controller(error):
            self._endpoints.leave(address, trailing_value(error, ACTIVE_KEY))
            return f"{address} is not active"
        if code_of(error) in _AGAIN_ELSEWHERE:
            self._leave(error, address, begun_s)
            return f"{address}: {details_of(error)}"
        raise ControllerCallError(method, code_of(error), details_of(error)) from error

    def _leave(self, error: grpc.RpcError, address: str, begun_s: float) -> None:
        """Moves to another controller, unless this one is active and waits for its store.

        The watch and the heartbeats move along, which an active controller would take for this
        member's death. So one slow call is not enough, nor are several at the same time.
        """
        if code_of(error) is grpc.StatusCode.DEADLINE_EXCEEDED:
            if self._late is None or self._late[0] != address:
                self._late = (address, asyncio.get_running_loop().time())
                return
            if begun_s < self._late[1]:
                return
        self._late = None
        if not is_store_unavailable(error):
            self._endpoints.rotate(address)
