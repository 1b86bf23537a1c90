"""EndTxn of clients without quotas: from the frame to the coordinator and back, without a task.

Every transaction ends with one, and a task, its future and its timer cost as much as what the
coordinator does. What is not the usual case goes the way of all requests (`dispatch`):

| what happens | what follows |
|---|---|
| not allowed, malformed, an unknown version, no coordinator | the way of all requests |
| the coordinator is not the node whose port the client came by | the way of all requests, which refuses it |
| an error of the coordinator, NOT_COORDINATOR too, or none | the answer: an end must not come late (`coordinators`) |
| the coordinator says nothing for too long | REQUEST_TIMED_OUT |
| the client leaves | the call is cancelled |
"""

import asyncio
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Final

from highwater.gateway.core.meters import RequestMeters
from highwater.gateway.handling.apis import APIS
from highwater.gateway.handling.context import Backend
from highwater.gateway.handling.coordinators import REPLY_GRACE_MS
from highwater.gateway.handling.errors import group_code
from highwater.gateway.requests.dispatch import handler_of
from highwater.gateway.requests.handler_reply import HandlerReply
from highwater.gateway.routing.client import ClientInfo, ClientSession
from highwater.hop.coordinator import CoordinatorCall
from highwater.hop.ports import NodeLink
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.errors import DecodeError
from highwater.kafka.framing import RequestHeader, encode_response_header, frame
from highwater.kafka.messages import end_txn as codec
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import Resource, ResourceType
from highwater.model.coordinator_topics import coordinator_place
from highwater.model.ids import TRANSACTION_STATE_TOPIC

LOOK_S: Final = 1.0
"""Between two looks for calls whose time is over."""

_API = APIS[ApiKey.END_TXN]
_unpack_error = Struct(">4xh").unpack_from
"""The error code of a response: in all versions, behind the throttle time."""


class _Ending(HandlerReply):
    """One request at a coordinator, and the place of its reply."""

    __slots__ = ("_owner", "deadline_ms", "header", "link", "session")

    def __init__(
        self,
        owner: "EndTransactions",
        session: ClientSession,
        nbytes: int,
        header: RequestHeader,
        link: NodeLink,
        deadline_ms: int,
    ) -> None:
        """`nbytes` is the length of the request."""
        super().__init__(session, header.api_key, nbytes)
        self._owner = owner
        self.session = session
        self.header = header
        self.link = link
        self.deadline_ms = deadline_ms

    def abandon(self) -> None:
        """The client is gone."""
        self._owner.client_left(self)
        super().abandon()


class EndTransactions:
    """Of one gateway; used on its loop. At most one call of each session waits."""

    def __init__(
        self,
        backend: Backend,
        meters: RequestMeters,
        *,
        broken: Callable[[ClientSession, Exception], None],
    ) -> None:
        """`broken` is told of a bug in making a reply."""
        self._backend = backend
        self._meters = meters
        self._broken = broken
        self._waiting: dict[_Ending, CoordinatorCall] = {}
        """In the order of their deadlines, because all wait equally long."""
        self._looks = False

    def takes(self, session: ClientSession, request: bytearray, header: RequestHeader) -> bool:
        """Whether the request is answered here; else it has to go the way of all requests."""
        try:
            body = self._allowed(session.client, request, header)
        except DecodeError:
            return False
        instance = session.client.peer.instance
        topic = self._backend.image.coordinator_topic(TRANSACTION_STATE_TOPIC, instance)
        if body is None or topic is None:
            return False
        name = body.transactional_id
        partition = coordinator_place(instance, name, len(topic.partitions))
        node = topic.partitions[partition].leader
        if session.client.peer.node not in (None, node):
            return False
        link = self._backend.link_to(node)
        if link is None:
            return False
        timeout_ms = self._backend.settings.request_timeout_ms
        deadline_ms = self._backend.clock.monotonic_ms() + timeout_ms + REPLY_GRACE_MS
        ending = _Ending(self, session, len(request), header, link, deadline_ms)
        session.expect(ending)
        call = self._waiting[ending] = CoordinatorCall(
            api_key=header.api_key,
            api_version=header.api_version,
            instance=instance,
            client_id=header.client_id or "",
            client_host=f"/{session.client.peer.host}",
            body=memoryview(request)[header.body_pos :],
            partition=partition,
            deadline_ms=timeout_ms,
            reply=partial(self._answered, ending),
            request=body,
        )
        self._look_later()
        link.submit(call)
        return True

    def _allowed(
        self, client: ClientInfo, request: bytearray, header: RequestHeader
    ) -> codec.EndTxnRequest | None:
        """What is to end; None if the client may not end it. Raises DecodeError."""
        version = header.api_version
        if not _API.serves(version):
            return None
        body = codec.decode_request(request, header.body_pos, version)
        authorizer = self._backend.authorizer
        if not authorizer.allows_all:
            transaction = Resource(ResourceType.TRANSACTIONAL_ID, body.transactional_id)
            if not authorizer.allows(client.requester, AclOperation.WRITE, transaction):
                return None
        return body

    # -- the end of a call --------------------------------------------------------------------

    def _answered(self, ending: _Ending, error_code: int, body: bytes) -> None:
        """The coordinator has answered, or it is too late; only the first of both counts."""
        if self._waiting.pop(ending, None) is None:
            return
        session, header = ending.session, ending.header
        answer = b""
        try:
            answer = self._encoded(header, group_code(error_code), body)
        except Exception as error:  # noqa: BLE001 - a bug: the client would wait for ever.
            self._broken(session, error)
        session.complete(ending, answer)

    def _encoded(self, header: RequestHeader, error_code: int, body: bytes) -> bytes:
        """The whole reply, whose error is counted."""
        version = header.api_version
        if error_code:
            handler = handler_of(_API)
            body = handler.codec.encode_response(
                handler.failure(None, version, error_code), version
            )
        else:
            (error_code,) = _unpack_error(body)
        if error_code:
            self._meters.apis[_API.key].failed(error_code)
        front = encode_response_header(header.api_key, version, header.correlation_id)
        return frame(front, body)

    def client_left(self, ending: _Ending) -> None:
        """Nobody waits for the answer any more."""
        call = self._waiting.pop(ending, None)
        if call is not None:
            ending.link.cancel(call)
            ending.session.complete(ending, b"")

    # -- deadlines ----------------------------------------------------------------------------

    def _look_later(self) -> None:
        if not self._looks:
            self._looks = True
            asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._looks = False
        now_ms = self._backend.clock.monotonic_ms()
        for ending in list(self._waiting):
            if ending.deadline_ms > now_ms:
                break
            self._answered(ending, ErrorCode.REQUEST_TIMED_OUT, b"")
        if self._waiting:
            self._look_later()
