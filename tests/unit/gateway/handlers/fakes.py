"""A gateway's surroundings without a network: image, links, controller, and a client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.gateway.core.meters import RequestMeters
from highwater.gateway.handling.context import HandlerSettings, RequestContext
from highwater.gateway.handling.shared_state import SharedState
from highwater.gateway.quota.core.request_quota import NO_QUOTA, RequestQuota
from highwater.gateway.requests.dispatch import dispatch
from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.near_nodes import NearNodes
from highwater.gateway.routing.table import InstanceTopics, RoutingTable
from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.framing import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
)
from highwater.kafka.registry import request_codec
from highwater.metadata.convert import topic_from_pb, topic_to_pb
from highwater.metadata.convert_access import acl_from_pb, entity_from_pb
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import (
    AllowAll,
    Authorizer,
    Requester,
    Resource,
    ResourceType,
    TopicView,
)
from highwater.model.client_quotas import ClientQuotaKey
from highwater.model.cluster import (
    ClusterDelta,
    ClusterImage,
)
from highwater.model.ids import (
    DEFAULT_INSTANCE,
    InstanceId,
    NodeId,
    TopicId,
)
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.runtime.log_limit import LogLimit
from highwater.runtime.logging import silent_logger
from tests.unit.gateway.handlers.images import image_of, topic


class FakeClock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.now_ms


class FakeLink:
    """A node: coordinator calls are kept, or answered by `coordinate`; others by functions."""

    def __init__(self, node_id: int) -> None:
        self.node_id = NodeId(node_id)
        self.calls: list[CoordinatorCall] = []
        self.cancelled: list[CoordinatorCall] = []
        self.coordinate: Callable[[CoordinatorCall], tuple[int, bytes] | None] = lambda call: None
        self.answer_offsets: Callable[[Any], Any] | None = None
        self.answer_epochs: Callable[[Any], Any] | None = None
        self.answer_producers: Callable[[Any], Any] | None = None
        self.answer_deletions: Callable[[Any], Any] | None = None
        self.answer_markers: Callable[[Any], Any] | None = None
        self.answer_log_dirs: Callable[[Any], Any] | None = None
        self.answer_loggers: Callable[[Any], Any] | None = None
        """For both questions about loggers."""
        self.asked: list[tuple[Any, float]] = []

    def submit(self, call: CoordinatorCall) -> None:
        self.calls.append(call)
        answer = self.coordinate(call)
        if answer is not None:
            call.reply(*answer)

    def cancel(self, call: CoordinatorCall) -> None:
        self.cancelled.append(call)

    async def list_offsets(self, request: Any, timeout_s: float) -> Any:
        self.asked.append((request, timeout_s))
        assert self.answer_offsets is not None
        return self.answer_offsets(request)

    async def offsets_for_leader_epoch(self, request: Any, timeout_s: float) -> Any:
        self.asked.append((request, timeout_s))
        assert self.answer_epochs is not None
        return self.answer_epochs(request)

    async def describe_producers(self, request: Any, timeout_s: float) -> Any:
        self.asked.append((request, timeout_s))
        assert self.answer_producers is not None
        return self.answer_producers(request)

    async def delete_records(self, request: Any, timeout_s: float) -> Any:
        self.asked.append((request, timeout_s))
        assert self.answer_deletions is not None
        return self.answer_deletions(request)

    async def write_txn_markers(self, request: Any, timeout_s: float) -> Any:
        self.asked.append((request, timeout_s))
        assert self.answer_markers is not None
        return self.answer_markers(request)

    async def describe_log_dirs(self, request: Any, timeout_s: float) -> Any:
        self.asked.append((request, timeout_s))
        assert self.answer_log_dirs is not None
        return self.answer_log_dirs(request)

    async def alter_log_dirs(self, request: Any, timeout_s: float) -> Any:
        return await self.describe_log_dirs(request, timeout_s)

    async def describe_loggers(self, request: Any, timeout_s: float) -> Any:
        self.asked.append((request, timeout_s))
        assert self.answer_loggers is not None
        return self.answer_loggers(request)

    async def alter_loggers(self, request: Any, timeout_s: float) -> Any:
        return await self.describe_loggers(request, timeout_s)


class FakeController:
    """Creates what is requested in the backend's image; `errors` and `raises` change that."""

    def __init__(self, backend: FakeBackend) -> None:
        self.backend = backend
        self.requests: list[Any] = []
        self.errors: dict[str | bytes | int, tuple[int, str]] = {}
        """Error codes with messages by topic name, topic id, name of a subscription or node id."""
        self.raises: Exception | None = None
        self.hold: asyncio.Event | None = None
        self.leaders: Sequence[int] = (1, 2, 3)
        self.publishes = True
        self.next_producer_id = 7_000
        self.scram_users: Sequence[pb.ScramUser] = ()
        self.removals: Sequence[pb.AclRemoval] = ()
        self.quorum = pb.DescribeQuorumResponse()
        self.block = 3

    async def _take(self, request: Any) -> None:
        self.requests.append(request)
        if self.hold is not None:
            await self.hold.wait()
        if self.raises is not None:
            raise self.raises

    async def create_topics(self, request: Any, *, timeout_s: float) -> pb.CreateTopicsResponse:
        await self._take(request)
        results, created = [], []
        for wish in request.topics:
            error = self.errors.get(wish.name)
            if error is not None:
                results.append(pb.TopicResult(error=self._error(error)))
                continue
            count = len(wish.assignments) or wish.partitions
            leaders = [self.leaders[n % len(self.leaders)] for n in range(count)]
            state = topic(
                wish.name, leaders, configs=dict(wish.configs), internal=wish.internal,
                instance=InstanceId(request.instance),
            )  # fmt: skip
            results.append(pb.TopicResult(topic=topic_to_pb(state)))
            created.append(topic_from_pb(results[-1].topic))
        if not request.validate_only and self.publishes:
            self.backend.change(topics=tuple(created))
        revision = self.backend.image.revision + (0 if self.publishes else 1)
        return pb.CreateTopicsResponse(results=results, revision=revision)

    async def delete_topics(self, request: Any, *, timeout_s: float) -> pb.DeleteTopicsResponse:
        await self._take(request)
        errors = [self._error(self.errors.get(one)) for one in request.topic_ids]
        gone = [one for one in request.topic_ids if one not in self.errors]
        self.backend.change(removed_topics=frozenset(TopicId(one) for one in gone))
        return pb.DeleteTopicsResponse(errors=errors, revision=self.backend.image.revision)

    async def create_partitions(self, request: Any, *, timeout_s: float) -> Any:
        await self._take(request)
        errors = [self._error(self.errors.get(one.topic_id)) for one in request.topics]
        return pb.CreatePartitionsResponse(errors=errors, revision=self.backend.image.revision)

    async def alter_configs(self, request: Any, *, timeout_s: float) -> pb.AlterConfigsResponse:
        await self._take(request)
        errors = [
            self._error(self.errors.get(one.topic_id or one.name or one.node_id))
            for one in request.changes
        ]
        return pb.AlterConfigsResponse(errors=errors, revision=self.backend.image.revision)

    async def alter_client_quotas(self, request: Any, *, timeout_s: float) -> Any:
        """`errors` by the name of an entity's first part; the others are set to the new values."""
        await self._take(request)
        errors, changed = [], {}
        for one in request.alterations:
            entity = entity_from_pb(one.entity)
            errors.append(self._error(self.errors.get(entity[0][1] or "" if entity else "")))
            if not errors[-1].error_code:
                key = ClientQuotaKey(InstanceId(request.instance), entity)
                changed[key] = {op.key: op.value for op in one.operations if op.HasField("value")}
        if changed and not request.validate_only:
            self.backend.change(client_quotas=changed)
        return pb.AlterClientQuotasResponse(errors=errors, revision=self.backend.image.revision)

    async def alter_scram_users(self, request: Any, *, timeout_s: float) -> Any:
        """`errors` by user."""
        await self._take(request)
        users = [
            pb.ScramUser(user=one.user, error=self._error(self.errors.get(one.user)))
            for one in request.changes
        ]
        return pb.AlterScramUsersResponse(users=users, revision=self.backend.image.revision)

    async def describe_scram_users(self, request: Any, *, timeout_s: float) -> Any:
        await self._take(request)
        return pb.DescribeScramUsersResponse(users=self.scram_users)

    async def create_acls(self, request: Any, *, timeout_s: float) -> Any:
        """`errors` by the resource's name; the others are added."""
        await self._take(request)
        errors = [self._error(self.errors.get(one.name)) for one in request.acls]
        new = {
            acl_from_pb(one): True
            for one, error in zip(request.acls, errors, strict=True)
            if not error.error_code
        }
        self.backend.change(acls=new)
        return pb.CreateAclsResponse(errors=errors, revision=self.backend.image.revision)

    async def delete_acls(self, request: Any, *, timeout_s: float) -> Any:
        """`removals` in the order of the filters."""
        await self._take(request)
        return pb.DeleteAclsResponse(removals=self.removals, revision=self.backend.image.revision)

    async def describe_quorum(self, request: Any, *, timeout_s: float) -> Any:
        await self._take(request)
        return self.quorum

    async def elect_leaders(self, request: Any, *, timeout_s: float) -> pb.ElectLeadersResponse:
        await self._take(request)
        wanted = [(one.topic_id, one.partitions) for one in request.topics]
        if request.all_partitions:
            topics = self.backend.image.topics.values()
            wanted = [(t.topic_id, range(len(t.partitions))) for t in topics]
        results = [
            pb.ElectionResult(
                topic_id=topic, partition=number, error=self._error(self.errors.get(number))
            )
            for topic, numbers in wanted
            for number in numbers
        ]
        return pb.ElectLeadersResponse(results=results, revision=self.backend.image.revision)

    async def alter_partition_reassignments(self, request: Any, *, timeout_s: float) -> Any:
        await self._take(request)
        errors = [self._error(self.errors.get(one.partition)) for one in request.reassignments]
        return pb.AlterPartitionReassignmentsResponse(
            errors=errors, revision=self.backend.image.revision
        )

    async def remove_node(self, request: Any, *, timeout_s: float) -> pb.RemoveNodeResponse:
        await self._take(request)
        error = self.errors.get(request.node_id)
        if error is None:
            self.backend.change(removed_nodes=frozenset({NodeId(request.node_id)}))
        return pb.RemoveNodeResponse(error=self._error(error), revision=self.backend.image.revision)

    async def allocate_producer_ids(self, request: Any, *, timeout_s: float) -> Any:
        await self._take(request)
        error = self.errors.get("producer ids")
        if error is not None:
            return pb.AllocateProducerIdsResponse(error=self._error(error))
        start = self.next_producer_id
        self.next_producer_id += self.block
        return pb.AllocateProducerIdsResponse(start=start, length=self.block)

    @staticmethod
    def _error(error: tuple[int, str] | None) -> pb.ApiError:
        return (
            pb.ApiError() if error is None else pb.ApiError(error_code=error[0], message=error[1])
        )


class DenySome:
    """An authorizer that denies what it is told, and notes everything that it is asked.

    To deny an operation on every resource of a type, tell it the type instead of a resource.
    """

    allows_all = False

    def __init__(self, *denied: tuple[AclOperation, Resource | ResourceType]) -> None:
        self.denied = set(denied)
        self.asked: list[tuple[Requester, AclOperation, Resource | ResourceType]] = []

    def allows(self, who: Requester, operation: AclOperation, resource: Resource) -> bool:
        self.asked.append((who, operation, resource))
        kinds = (operation, resource), (operation, resource.resource_type)
        return self.denied.isdisjoint(kinds)

    def allows_any(
        self, who: Requester, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        self.asked.append((who, operation, resource_type))
        return (operation, resource_type) not in self.denied

    def topic_view(self, who: Requester) -> TopicView:
        return TopicView(who.principal, who.host, visible_without_acl=False)


def a_topic(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


def a_group(group_id: str) -> Resource:
    return Resource(ResourceType.GROUP, group_id)


def a_transaction(transactional_id: str) -> Resource:
    return Resource(ResourceType.TRANSACTIONAL_ID, transactional_id)


class FakeBackend:
    """A gateway as handlers see it."""

    def __init__(self, image: ClusterImage | None = None, **settings: Any) -> None:
        self.links = {number: FakeLink(number) for number in (1, 2, 3)}
        self.image = image or image_of()
        self.routing = RoutingTable(self.link_to)
        self.routing.apply(self.image)
        self.controller = FakeController(self)
        self.settings = HandlerSettings(**{"request_timeout_ms": 2_000, **settings})
        self.authorizer: Authorizer = AllowAll()
        self.clock = FakeClock()
        self.shared = SharedState()
        self.log = silent_logger()
        self.log_limit = LogLimit(self.clock.monotonic_ms)
        self._changed = asyncio.Event()

    def link_to(self, node_id: NodeId) -> FakeLink | None:
        return self.links.get(node_id)

    def deny(self, *denied: tuple[AclOperation, Resource | ResourceType]) -> DenySome:
        """Clients may not do this from now on."""
        self.authorizer = authorizer = DenySome(*denied)
        return authorizer

    def change(self, **changes: Any) -> None:
        """Publishes the next image, as the watch would."""
        self.image = self.image.apply(ClusterDelta(revision=self.image.revision + 1, **changes))
        self.routing.apply(self.image)
        self._changed.set()

    async def wait_for_revision(self, revision: int, timeout_s: float) -> bool:
        # Tests that time out should not take long.
        try:
            async with asyncio.timeout(min(timeout_s, 0.05)):
                while self.image.revision < revision:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def coordinate(self, answer: Callable[[CoordinatorCall], tuple[int, bytes] | None]) -> None:
        """All nodes answer coordinator calls with `answer`."""
        for link in self.links.values():
            link.coordinate = answer

    def coordinator_calls(self) -> list[tuple[int, CoordinatorCall]]:
        """(node, call) of all calls so far."""
        return [(link.node_id, call) for link in self.links.values() for call in link.calls]


class Client:
    """One connection. `call` sends a request through `dispatch` and decodes the response."""

    def __init__(
        self,
        backend: FakeBackend,
        *,
        node_id: int | None = None,
        instance: InstanceId = DEFAULT_INSTANCE,
        told_revision: int = -1,
        listener: str = DEFAULT_LISTENER,
    ) -> None:
        self.backend = backend
        peer = Peer(
            instance=instance,
            node=None if node_id is None else NodeId(node_id),
            host="192.0.2.7",
            port=50_000,
            listener=listener,
        )
        self.info = ClientInfo(peer, InstanceTopics(NearNodes()), told_revision)
        self.cleanups: list[Callable[[], None]] = []
        self.meters = RequestMeters()
        self.quota: RequestQuota = NO_QUOTA

    def context(self, api_key: int, version: int) -> RequestContext:
        return RequestContext(
            backend=self.backend,
            client=self.info,
            api_key=api_key,
            api_version=version,
            client_id="test-client",
            on_disconnect=self.cleanups.append,
            quota=self.quota,
        )

    def disconnect(self) -> None:
        for cleanup in self.cleanups:
            cleanup()

    async def send(self, api_key: int, version: int, body: bytes) -> bytes:
        """The response body for a request body, after checks of size and header."""
        content = bytearray(encode_request_header(api_key, version, 4711, "test-client") + body)
        header: RequestHeader = decode_request_header(content)
        reply = await dispatch(self.context(api_key, version), header, content, self.meters)
        assert int.from_bytes(reply[:4], "big") == len(reply) - 4
        correlation_id, pos = decode_response_header(reply, 4, api_key, version)
        assert correlation_id == 4711
        return reply[pos:]

    async def call(self, message: Any, version: int) -> Any:
        """Sends a request message; its module determines the API."""
        codec = request_codec(api_key_of(message))
        body = await self.send(codec.api_key, version, codec.encode_request(message, version))
        return codec.decode_response(body, 0, version)


def api_key_of(message: Any) -> int:
    module = __import__(type(message).__module__, fromlist=["API_KEY"])
    return int(module.API_KEY)


def echo(response: Any) -> Callable[[CoordinatorCall], tuple[int, bytes]]:
    """A coordinator that answers every call with this message."""
    codec = request_codec(api_key_of(response))
    return lambda call: (0, codec.encode_response(response, call.api_version))


def refuse(code: int) -> Callable[[CoordinatorCall], tuple[int, bytes]]:
    """A coordinator that answers every call with an error code."""
    return lambda call: (code, b"")


def request_of(call: CoordinatorCall) -> Any:
    """The request that a coordinator got."""
    return request_codec(call.api_key).decode_request(call.body, 0, call.api_version)
