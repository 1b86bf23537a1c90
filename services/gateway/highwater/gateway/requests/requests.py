"""The session's `RequestHandler`: takes whole frames to the handlers.

Produce and Fetch have their own paths, and EndTxn mostly (`end_transactions`); any other request is
decoded, handled in a task and encoded (`dispatch`). A malformed or unknown request closes the connection, as in Kafka.
"""

from functools import partial
from typing import Protocol

from highwater.gateway.core.meters import RequestMeters
from highwater.gateway.handling.context import Backend, RequestContext
from highwater.gateway.handling.never_late import NEVER_LATE
from highwater.gateway.quota.client_quotas import ClientQuotas
from highwater.gateway.quota.core.request_quota import NO_QUOTA, LimitedRequest, RequestQuota
from highwater.gateway.quota.limited_requests import HeldFetches
from highwater.gateway.quota.loop_time import LoopTime, timed
from highwater.gateway.requests.dispatch import dispatch
from highwater.gateway.requests.end_transactions import EndTransactions
from highwater.gateway.requests.handler_reply import HandlerReply
from highwater.gateway.routing.client import ClientSession
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.errors import DecodeError
from highwater.kafka.framing import RequestHeader, decode_request_header
from highwater.model.authorization import ANONYMOUS
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner


class FramePath(Protocol):
    """Handles the frames of one API of the data plane."""

    def start(self, session: ClientSession, frame: bytearray) -> None:
        """Starts a request, which is already counted as outstanding."""


class FetchFramePath(FramePath, HeldFetches, Protocol):
    """The path of Fetch, which also answers clients that are over their quota."""


class Requests:
    """All requests of one gateway."""

    def __init__(
        self,
        *,
        produce: FramePath,
        fetch: FramePath,
        backend: Backend,
        quotas: ClientQuotas,
        meters: RequestMeters,
        tasks: TaskOwner,
        log: Logger,
    ) -> None:
        # Bound methods: faster to call than an object with `__call__`.
        self.produce = produce.start
        self.fetch = fetch.start
        self._backend = backend
        self._quotas = quotas
        self._meters = meters
        self._tasks = tasks
        self._log = log
        self._end_transactions = EndTransactions(backend, meters, broken=self.reply_failed)

    def other(self, session: ClientSession, frame: bytearray) -> None:
        """Starts any request but Produce and Fetch."""
        try:
            header = decode_request_header(frame, 0)
        except DecodeError as error:
            self._refuse(session, frame, f"malformed request header: {error}")
            return
        if header.api_key in NEVER_LATE and not _in_time(session):
            self._refuse(session, frame, "it may be old: the gateway has stood still")
            return
        self._quotas.identify(session, header.client_id or "")
        if (
            header.api_key == ApiKey.END_TXN
            and session.quota is None
            and self._end_transactions.takes(session, frame, header)
        ):
            return
        reply = HandlerReply(session, header.api_key, len(frame))
        session.expect(reply)
        name = f"api-{header.api_key}"
        if session.quota is None:
            self._tasks.start(self._handle(session, frame, header, reply, NO_QUOTA), name=name)
            return
        time = LoopTime(session.shared.turn.clock_ns)
        quota = LimitedRequest(session.quota, time.spent_ns)
        handle = partial(self._handle, session, frame, header, reply, quota)
        self._tasks.start(timed(handle, time) if session.quota.times else handle(), name=name)

    async def _handle(
        self,
        session: ClientSession,
        frame: bytearray,
        header: RequestHeader,
        reply: HandlerReply,
        quota: RequestQuota,
    ) -> None:
        context = RequestContext(
            backend=self._backend,
            client=session.client,
            api_key=header.api_key,
            api_version=header.api_version,
            client_id=header.client_id or "",
            on_disconnect=reply.on_disconnect,
            quota=quota,
        )
        try:
            answer = await dispatch(context, header, frame, self._meters)
        except DecodeError as error:
            self._meters.refused += 1
            self._backend.log_limit.write(
                self._log.info,
                "request_refused",
                api=header.api_key,
                client=_shown(session, header),
                error=str(error),
            )
            if not session.closed:
                session.wire.close(str(error))
            session.complete(reply, b"")
            return
        except Exception as error:  # noqa: BLE001 - a bug: the client would wait for ever.
            self.reply_failed(session, error)
            session.complete(reply, b"")
            return
        session.complete(reply, answer)
        if quota.throttle_ms:
            session.mute(quota.throttle_ms)

    def reply_failed(self, session: ClientSession, error: Exception) -> None:
        """Counts and logs a bug in making a reply, and closes the connection."""
        self._meters.failed_replies += 1
        self._backend.log_limit.write(self._log.error, "reply_failed", exc_info=error)
        if not session.closed:
            session.wire.close("the reply could not be made")

    def _refuse(self, session: ClientSession, frame: bytearray, reason: str) -> None:
        self._backend.log_limit.write(self._log.info, "request_refused", error=reason)
        session.refuse(len(frame), reason)


def _in_time(session: ClientSession) -> bool:
    """False for a call that must not come late, and may; its client repeats it by a new connection."""
    client = session.client
    if not client.watched:
        client.watched = True
        session.wire.close_when_silent()
    return not session.shared.standstill.makes_old(client.accepted_ms)


def _shown(session: ClientSession, header: RequestHeader) -> str:
    """The client id of a malformed request, for the log; nothing of one that may be a part of a login.

    Where lengths are wrong, a token or a password may stand in its place.
    """
    client = session.client
    logs_in = client.login is not None and client.requester.principal == ANONYMOUS
    if logs_in or header.api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
        return ""
    return header.client_id or ""
