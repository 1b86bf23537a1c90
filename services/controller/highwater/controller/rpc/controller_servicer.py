"""ControllerService: turns requests into decisions of the active controller's present term."""

# ruff: noqa: N802 - gRPC's method names.

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.active.active import PRODUCER_ID_BLOCK, ActiveController
from highwater.controller.active.hand_overs import HandOvers
from highwater.controller.core.alter_reassignments import Reassignment
from highwater.controller.core.change_instances import PURGE_AFTER_MS_DEFAULT, of_the_cluster
from highwater.controller.core.change_isr import IsrResult, Proposal
from highwater.controller.core.create_topics import CreationResult
from highwater.controller.core.elect_leaders import ElectionType
from highwater.controller.core.gateways import malformed_gateway
from highwater.controller.core.hand_over import LeaderMove
from highwater.controller.core.membership import Registration
from highwater.controller.core.outcome import Refusal
from highwater.controller.image.not_active import NotActiveError
from highwater.controller.members.applied_waits import APPLIED_WAIT_MS_MAX
from highwater.controller.rpc.client_access import (
    acl_filter,
    quota_alteration,
    removal_to_pb,
    scram_change,
    scram_user_to_pb,
)
from highwater.controller.rpc.config_wishes import config_wish
from highwater.controller.rpc.errors import unary
from highwater.controller.rpc.node_heartbeat import node_heartbeat
from highwater.controller.rpc.quorum import quorum_to_pb
from highwater.controller.rpc.seen import check_seen
from highwater.controller.rpc.topic_wishes import growth, topic_wish
from highwater.controller.store.port import StoreWentBackError
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.convert import (
    gateway_from_pb,
    partition_to_pb,
    topic_to_pb,
)
from highwater.metadata.convert_access import acl_from_pb
from highwater.metadata.convert_instances import instance_from_pb
from highwater.model.cluster import TopicState
from highwater.model.errors import InvalidRequestError
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    NO_NODE,
    GatewayId,
    InstanceId,
    NodeId,
    TopicId,
)

_NO_ERROR: Final = pb.ApiError()

MOVES_MAX: Final = 1_000
"""Partitions that move away from one node at a time, even if more are requested."""

_ELECTION_TYPES: Final[Mapping[int, ElectionType]] = {
    pb.ELECTION_TYPE_PREFERRED: ElectionType.PREFERRED,
    pb.ELECTION_TYPE_UNCLEAN: ElectionType.UNCLEAN,
}


class ControllerServicer:
    """`current()` gives the present term, or None on a standby; `active_address()` its address."""

    def __init__(
        self, current: Callable[[], ActiveController | None], active_address: Callable[[], str]
    ) -> None:
        self._current = current
        self.active_address = active_address

    @unary
    async def RegisterNode(self, request: pb.RegisterNodeRequest) -> pb.RegisterNodeResponse:
        """See the proto."""
        controller = self._active()
        if request.cluster_id in ("", controller.image.cluster_id):
            try:
                await check_seen(controller, request.seen)
                await controller.check_seen(request.previous_node_epoch)
            except StoreWentBackError as error:
                refusal = Refusal(code=ErrorCode.INVALID_REGISTRATION, message=str(error))
                return pb.RegisterNodeResponse(error=_error(refusal), node_id=request.node_id)
        admitted = await controller.members.register_node(
            Registration(
                node_id=NodeId(request.node_id),
                address=request.address,
                rack=request.rack,
                incarnation=request.incarnation,
                log_dirs=tuple(request.log_dirs),
                previous_node_epoch=request.previous_node_epoch,
                lineage=tuple(request.lineage),
                static_configs=dict(request.static_configs),
            ),
            request.cluster_id,
        )
        if isinstance(admitted, Refusal):
            return pb.RegisterNodeResponse(error=_error(admitted), node_id=request.node_id)
        return pb.RegisterNodeResponse(
            error=_NO_ERROR,
            node_id=admitted.node_id,
            node_epoch=admitted.node_epoch,
            cluster_id=controller.image.cluster_id,
            heartbeat_interval_ms=controller.sessions.heartbeat_interval_ms,
            session_timeout_ms=controller.sessions.session_timeout_ms,
        )

    @unary
    async def RegisterGateway(
        self, request: pb.RegisterGatewayRequest
    ) -> pb.RegisterGatewayResponse:
        """See the proto."""
        controller = self._active()
        await check_seen(controller, request.seen)
        gateway = gateway_from_pb(request.gateway)
        why = malformed_gateway(gateway)
        if why is not None:
            refusal = Refusal(code=ErrorCode.INVALID_REQUEST, message=why)
            return pb.RegisterGatewayResponse(error=_error(refusal))
        refused = await controller.members.register_gateway(gateway)
        if refused is not None:
            return pb.RegisterGatewayResponse(error=_error(refused))
        return pb.RegisterGatewayResponse(
            error=_NO_ERROR,
            cluster_id=controller.image.cluster_id,
            heartbeat_interval_ms=controller.sessions.heartbeat_interval_ms,
            session_timeout_ms=controller.sessions.session_timeout_ms,
            login_secret=controller.login_secret,
        )

    @unary
    async def Heartbeat(self, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        """See the proto."""
        controller = self._active()
        await check_seen(controller, request.seen)
        members = controller.members
        if request.gateway_id:
            result = await members.gateway_heartbeat(
                GatewayId(request.gateway_id),
                request.applied_revision,
                wants_shutdown=request.wants_shutdown,
            )
        else:
            result = await members.heartbeat(node_heartbeat(request))
        asked: Sequence[LeaderMove] = ()
        if result.refusal is None and not request.gateway_id:
            asked = _hand_overs(controller.hand_overs, request)
        return pb.HeartbeatResponse(
            error=_error(result.refusal),
            fenced=result.fenced,
            may_shut_down=result.may_shut_down,
            revision=controller.image.revision,
            hand_over=[
                pb.HandOver(
                    topic_id=move.key[0],
                    partition=move.key[1],
                    leader_epoch=move.leader_epoch,
                    successor=move.successor,
                )
                for move in asked
            ],
        )

    @unary
    async def CreateTopics(self, request: pb.CreateTopicsRequest) -> pb.CreateTopicsResponse:
        """See the proto."""
        controller = self._deciding()
        wishes = [topic_wish(topic) for topic in request.topics]
        results, revision = await controller.create_topics(
            _instance(request.instance), wishes, validate_only=request.validate_only
        )
        if not request.validate_only:
            await _applied(controller, revision, request.timeout_ms)
        return pb.CreateTopicsResponse(
            results=[_topic_result(result) for result in results], revision=revision
        )

    @unary
    async def DeleteTopics(self, request: pb.DeleteTopicsRequest) -> pb.DeleteTopicsResponse:
        """See the proto."""
        controller = self._deciding()
        topic_ids = [TopicId(topic_id) for topic_id in request.topic_ids]
        results, revision = await controller.delete_topics(_instance(request.instance), topic_ids)
        await _applied(controller, revision, request.timeout_ms)
        return pb.DeleteTopicsResponse(errors=[_error(r) for r in results], revision=revision)

    @unary
    async def CreatePartitions(
        self, request: pb.CreatePartitionsRequest
    ) -> pb.CreatePartitionsResponse:
        """See the proto."""
        controller = self._deciding()
        growths = [growth(topic) for topic in request.topics]
        results, revision = await controller.create_partitions(
            _instance(request.instance), growths, validate_only=request.validate_only
        )
        if not request.validate_only:
            await _applied(controller, revision, request.timeout_ms)
        return pb.CreatePartitionsResponse(errors=[_error(r) for r in results], revision=revision)

    @unary
    async def AlterConfigs(self, request: pb.AlterConfigsRequest) -> pb.AlterConfigsResponse:
        """See the proto."""
        controller = self._deciding()
        results, revision = await controller.alter_configs(
            _instance(request.instance),
            [config_wish(change) for change in request.changes],
            validate_only=request.validate_only,
        )
        if not request.validate_only:
            await _applied(controller, revision, APPLIED_WAIT_MS_MAX)
        return pb.AlterConfigsResponse(errors=[_error(r) for r in results], revision=revision)

    @unary
    async def AllocateProducerIds(
        self, request: pb.AllocateProducerIdsRequest
    ) -> pb.AllocateProducerIdsResponse:
        """See the proto."""
        controller = self._deciding()
        # Gateways have no epoch and need none: a block is never given twice.
        if request.node_id != NO_NODE:
            refusal = controller.members.check_epoch(NodeId(request.node_id), request.node_epoch)
            if refusal is not None:
                return pb.AllocateProducerIdsResponse(error=_error(refusal))
        start = await controller.allocate_producer_ids()
        return pb.AllocateProducerIdsResponse(
            error=_NO_ERROR, start=start, length=PRODUCER_ID_BLOCK
        )

    @unary
    async def AlterPartition(self, request: pb.AlterPartitionRequest) -> pb.AlterPartitionResponse:
        """See the proto."""
        controller = self._deciding()
        refusal = controller.members.check_epoch(NodeId(request.node_id), request.node_epoch)
        if refusal is not None:
            stale = [pb.AlterPartitionResult(error=_error(refusal)) for _ in request.proposals]
            return pb.AlterPartitionResponse(results=stale)
        proposals = [
            Proposal(
                topic_id=TopicId(proposal.topic_id),
                partition=proposal.partition,
                leader_epoch=proposal.leader_epoch,
                partition_epoch=proposal.partition_epoch,
                isr=tuple(proposal.isr),
                isr_node_epochs=tuple(proposal.isr_node_epochs),
            )
            for proposal in request.proposals
        ]
        results = await controller.alter_partitions(NodeId(request.node_id), proposals)
        return pb.AlterPartitionResponse(results=[_isr_result(result) for result in results])

    @unary
    async def ElectLeaders(self, request: pb.ElectLeadersRequest) -> pb.ElectLeadersResponse:
        """See the proto."""
        controller = self._deciding()
        kind = _ELECTION_TYPES.get(request.type)
        if kind is None:
            raise InvalidRequestError("the kind of election is not known")
        wanted = [(TopicId(topic.topic_id), tuple(topic.partitions)) for topic in request.topics]
        results, revision = await controller.elect_leaders(
            _instance(request.instance),
            None if request.all_partitions else wanted,
            kind,
            hand_over_ms=request.hand_over_ms,
        )
        await _applied(controller, revision, request.timeout_ms)
        return pb.ElectLeadersResponse(
            results=[
                pb.ElectionResult(
                    topic_id=result.topic_id,
                    partition=result.partition,
                    error=_error(result.refusal),
                )
                for result in results
            ],
            revision=revision,
        )

    @unary
    async def AlterPartitionReassignments(
        self, request: pb.AlterPartitionReassignmentsRequest
    ) -> pb.AlterPartitionReassignmentsResponse:
        """See the proto."""
        controller = self._deciding()
        wanted = [
            Reassignment(
                topic_id=TopicId(one.topic_id),
                partition=one.partition,
                replicas=None if one.cancel else tuple(one.replicas),
            )
            for one in request.reassignments
        ]
        results, revision = await controller.alter_reassignments(
            _instance(request.instance),
            wanted,
            may_change_factor=request.allow_replication_factor_change,
        )
        await _applied(controller, revision, request.timeout_ms)
        return pb.AlterPartitionReassignmentsResponse(
            errors=[_error(result) for result in results], revision=revision
        )

    @unary
    async def DecommissionNode(
        self, request: pb.DecommissionNodeRequest
    ) -> pb.DecommissionNodeResponse:
        """See the proto."""
        controller = self._deciding()
        node = NodeId(request.node_id)
        if request.cancel:
            result, revision = await controller.recommission(node)
        else:
            moves_max = min(request.moves_max, MOVES_MAX)
            result, revision = await controller.decommission(node, moves_max=moves_max)
        if isinstance(result, Refusal):
            return pb.DecommissionNodeResponse(error=_error(result))
        return pb.DecommissionNodeResponse(
            error=_NO_ERROR,
            replicas_left=result.left,
            moving=result.moving,
            waiting=result.waiting,
            revision=revision,
        )

    @unary
    async def RemoveNode(self, request: pb.RemoveNodeRequest) -> pb.RemoveNodeResponse:
        """See the proto."""
        controller = self._deciding()
        refused = of_the_cluster(_instance(request.instance))
        if refused is not None:
            return pb.RemoveNodeResponse(error=_error(refused))
        refusal, revision = await controller.remove_node(NodeId(request.node_id))
        if refusal is None:
            await _applied(controller, revision, APPLIED_WAIT_MS_MAX)
        return pb.RemoveNodeResponse(error=_error(refusal), revision=revision)

    @unary
    async def CreateInstance(self, request: pb.CreateInstanceRequest) -> pb.CreateInstanceResponse:
        """See the proto."""
        controller = self._deciding()
        refusal, revision = await controller.instances.create(instance_from_pb(request.instance))
        await _applied(controller, revision, APPLIED_WAIT_MS_MAX)
        return pb.CreateInstanceResponse(error=_error(refusal), revision=revision)

    @unary
    async def SetInstance(self, request: pb.SetInstanceRequest) -> pb.SetInstanceResponse:
        """See the proto."""
        controller = self._deciding()
        refusal, revision = await controller.instances.set(
            instance_from_pb(request.instance),
            previous=instance_from_pb(request.previous) if request.HasField("previous") else None,
        )
        await _applied(controller, revision, APPLIED_WAIT_MS_MAX)
        return pb.SetInstanceResponse(error=_error(refusal), revision=revision)

    @unary
    async def DeleteInstance(self, request: pb.DeleteInstanceRequest) -> pb.DeleteInstanceResponse:
        """See the proto."""
        controller = self._deciding()
        given = request.HasField("purge_after_ms")
        result, revision = await controller.instances.delete(
            InstanceId(request.instance),
            purge_after_ms=request.purge_after_ms if given else PURGE_AFTER_MS_DEFAULT,
        )
        if isinstance(result, Refusal):
            return pb.DeleteInstanceResponse(error=_error(result))
        await _applied(controller, revision, APPLIED_WAIT_MS_MAX)
        return pb.DeleteInstanceResponse(revision=revision, purge_at_ms=result.purge_at_ms)

    @unary
    async def RestoreInstance(
        self, request: pb.RestoreInstanceRequest
    ) -> pb.RestoreInstanceResponse:
        """See the proto."""
        controller = self._deciding()
        refusal, revision = await controller.instances.restore(InstanceId(request.instance))
        await _applied(controller, revision, APPLIED_WAIT_MS_MAX)
        return pb.RestoreInstanceResponse(error=_error(refusal), revision=revision)

    @unary
    async def AlterClientQuotas(
        self, request: pb.AlterClientQuotasRequest
    ) -> pb.AlterClientQuotasResponse:
        """See the proto."""
        results, revision = await self._deciding().client_access.alter_client_quotas(
            _instance(request.instance),
            [quota_alteration(alteration) for alteration in request.alterations],
            validate_only=request.validate_only,
        )
        return pb.AlterClientQuotasResponse(errors=map(_error, results), revision=revision)

    @unary
    async def AlterScramUsers(
        self, request: pb.AlterScramUsersRequest
    ) -> pb.AlterScramUsersResponse:
        """See the proto."""
        outcomes, revision = await self._deciding().client_access.alter_scram_users(
            _instance(request.instance), [scram_change(change) for change in request.changes]
        )
        users = [
            pb.ScramUser(user=user, error=_error(refusal)) for user, refusal in outcomes.items()
        ]
        return pb.AlterScramUsersResponse(users=users, revision=revision)

    @unary
    async def DescribeScramUsers(
        self, request: pb.DescribeScramUsersRequest
    ) -> pb.DescribeScramUsersResponse:
        """See the proto."""
        users = self._active().client_access.describe_scram_users(
            _instance(request.instance), request.users
        )
        return pb.DescribeScramUsersResponse(
            users=[scram_user_to_pb(user, _error(user.refusal)) for user in users]
        )

    @unary
    async def CreateAcls(self, request: pb.CreateAclsRequest) -> pb.CreateAclsResponse:
        """See the proto."""
        outcomes, revision = await self._deciding().client_access.create_acls(
            [acl_from_pb(acl) for acl in request.acls]
        )
        return pb.CreateAclsResponse(errors=map(_error, outcomes), revision=revision)

    @unary
    async def DeleteAcls(self, request: pb.DeleteAclsRequest) -> pb.DeleteAclsResponse:
        """See the proto."""
        removals, revision = await self._deciding().client_access.delete_acls(
            [acl_filter(one) for one in request.filters]
        )
        told = [removal_to_pb(one, _error(one.refusal)) for one in removals]
        return pb.DeleteAclsResponse(removals=told, revision=revision)

    @unary
    async def DescribeQuorum(self, _request: pb.DescribeQuorumRequest) -> pb.DescribeQuorumResponse:
        """See the proto."""
        return quorum_to_pb(await self._active().quorum.describe())

    def _active(self) -> ActiveController:
        controller = self._current()
        if controller is None:
            raise NotActiveError(self.active_address())
        return controller

    def _deciding(self) -> ActiveController:
        """`_active` for members' decisions: also raises NotActiveError until `may_change`."""
        controller = self._active()
        if not controller.may_change:
            raise NotActiveError(self.active_address())
        return controller


async def _applied(controller: ActiveController, revision: int, timeout_ms: int) -> None:
    await controller.members.wait_applied(revision, timeout_ms or APPLIED_WAIT_MS_MAX)


def _hand_overs(hand_overs: HandOvers, request: pb.HeartbeatRequest) -> Sequence[LeaderMove]:
    """Takes a node's answers; returns the leaderships that it must hand over."""
    node = NodeId(request.node_id)
    for one in request.handed_over:
        key = TopicId(one.topic_id), one.partition
        successor = one.successor if one.HasField("successor") else None
        hand_overs.answered(node, key, one.leader_epoch, ready=one.ready, successor=successor)
    return hand_overs.asked_of(node)


def _instance(instance: str) -> InstanceId:
    return InstanceId(instance) if instance else DEFAULT_INSTANCE


def _error(refusal: Refusal | None) -> pb.ApiError:
    if refusal is None:
        return _NO_ERROR
    return pb.ApiError(error_code=refusal.code, message=refusal.message)


def _topic_result(result: CreationResult) -> pb.TopicResult:
    if isinstance(result, TopicState):
        return pb.TopicResult(error=_NO_ERROR, topic=topic_to_pb(result))
    return pb.TopicResult(error=_error(result))


def _isr_result(result: IsrResult) -> pb.AlterPartitionResult:
    state = None if result.state is None else partition_to_pb(result.state)
    return pb.AlterPartitionResult(error=_error(result.refusal), state=state)
