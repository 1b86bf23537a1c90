"""Secret and certificates over grpcio: credentials of both ends, an interceptor, calls with the proof."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
import grpc.aio

from highwater.rpc.guard import Guard
from highwater.rpc.metadata import Metadata
from highwater.rpc.tls import ClientTls, ServerTls

NO_NAME: Final = "the caller's certificate has no allowed name"

_NAMES: Final = ("x509_common_name", "x509_subject_alternative_name")
"""grpcio's properties of a peer."""


def client_credentials(tls: ClientTls | None) -> grpc.ChannelCredentials | None:
    """Those of a channel, with the files as they are now; None for a plain one."""
    if tls is None:
        return None
    loaded = tls.loaded
    shown = loaded.shown
    return grpc.ssl_channel_credentials(
        root_certificates=loaded.trusted,
        private_key=None if shown is None else shown.key,
        certificate_chain=None if shown is None else shown.certificate,
    )


def server_credentials(tls: ServerTls | None) -> grpc.ServerCredentials | None:
    """Those of a server, which looks at the files for each handshake; None for a plain one."""
    if tls is None:
        return None
    seen = tls.generation

    def configuration() -> grpc.ServerCertificateConfiguration:
        loaded = tls.loaded
        assert loaded.shown is not None, "a server has a certificate"
        return grpc.ssl_server_certificate_configuration(
            [(loaded.shown.key, loaded.shown.certificate)], root_certificates=loaded.trusted
        )

    def fetch() -> Any:  # None for no change, which the stubs do not know.
        # On one of grpcio's threads.
        nonlocal seen
        if (generation := tls.generation) == seen:
            return None
        seen = generation
        return configuration()

    return grpc.dynamic_ssl_server_credentials(
        configuration(), fetch, require_client_authentication=tls.trusted is not None
    )


class GuardInterceptor(grpc.aio.ServerInterceptor):
    """Asks a guard about each call, before it has a handler. Lives as long as its server."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """The call's handler, or one that refuses it."""
        path: str = handler_call_details.method
        reason = self._guard.refusal(handler_call_details.invocation_metadata or ())
        if reason:
            return self._refusing(path, reason)
        handler = await continuation(handler_call_details)
        if handler is None or not self._guard.names:
            return handler
        return self._asking_names(handler)

    def _refusing(self, path: str, reason: str) -> Any:
        async def refuse(_requests: object, context: Any) -> None:
            self._guard.tell_call(peer=context.peer(), path=path, reason=reason)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)

        # A unary call is a stream of one message, too, and nobody reads it.
        return grpc.stream_stream_rpc_method_handler(refuse)

    def _asking_names(self, handler: Any) -> Any:
        """The handler, if the peer's certificate has one of the names: known only with the call."""
        kind = (
            ("stream_" if handler.request_streaming else "unary_")
            + ("stream" if handler.response_streaming else "unary")
        )  # fmt: skip
        inner = getattr(handler, kind)

        if handler.response_streaming:

            async def stream(request: Any, context: Any) -> Any:
                await self._check_names(context)
                result = inner(request, context)
                if hasattr(result, "__aiter__"):
                    async for response in result:
                        yield response
                else:
                    await result  # It writes by itself.

            return handler._replace(**{kind: stream})

        async def unary(request: Any, context: Any) -> Any:
            await self._check_names(context)
            return await inner(request, context)

        return handler._replace(**{kind: unary})

    async def _check_names(self, context: Any) -> None:
        shown = context.auth_context()
        names = [name.decode("utf-8", "replace") for key in _NAMES for name in shown.get(key, ())]
        if not self._guard.knows(names):
            self._guard.tell_peer(peer=context.peer(), names=names)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, NO_NAME)


class ProvingChannel:
    """A channel of grpcio, on the loop or blocking, for generated stubs: each call has the proof."""

    def __init__(self, channel: Any, proof: Callable[[], Metadata]) -> None:
        """`channel` stays its owner's. Its stubs do not declare what generated code passes on."""
        self._channel = channel
        self._proof = proof

    def unary_unary(self, *args: Any, **options: Any) -> Any:
        """One request, one response."""
        return self._proving(self._channel.unary_unary(*args, **options))

    def unary_stream(self, *args: Any, **options: Any) -> Any:
        """One request, many responses."""
        return self._proving(self._channel.unary_stream(*args, **options))

    def stream_unary(self, *args: Any, **options: Any) -> Any:
        """Many requests, one response."""
        return self._proving(self._channel.stream_unary(*args, **options))

    def stream_stream(self, *args: Any, **options: Any) -> Any:
        """Many of both."""
        return self._proving(self._channel.stream_stream(*args, **options))

    def _proving(self, method: Any) -> Any:
        def call(request: Any, *, metadata: Metadata = (), **options: Any) -> Any:
            return method(request, metadata=(*metadata, *self._proof()), **options)

        return call
