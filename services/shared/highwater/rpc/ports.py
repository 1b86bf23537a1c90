"""What users of streams depend on: satisfied by this transport, and by an adapter to grpc.aio.

Everything runs on one loop. Callbacks must return soon; what they raise ends their call with
UNKNOWN and is reported. `on_end` is called exactly once, and after it nothing else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from highwater.http2.ports import Buffer
from highwater.rpc.metadata import Metadata
from highwater.rpc.status import Status, StatusCode

Request = TypeVar("Request")
Response = TypeVar("Response")

Message = bytes | bytearray
"""A whole message, the receiver's own; this transport's are bytearrays of fixed length."""


def nothing() -> None:
    """A callback that nobody needs."""


def no_end(_status: Status) -> None:
    """As `nothing`, for `on_end`."""


def no_memory() -> int:
    """Of a call for which nothing is kept."""
    return 0


class StreamCall(Protocol):
    """One call, at either end."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes of messages that wait for the peer's window, or for the socket."""
        ...

    def send(self, parts: Buffer | Sequence[Buffer]) -> None:
        """Sends a message of one or several buffers, which must not change until it has left.

        Never blocks: what the peer does not take waits, see `can_send`. Ignored after the end.
        """
        ...

    def can_send(self) -> bool:
        """False if a message would have to wait; then `on_writable` is called once it need not."""
        ...

    def pause_reading(self) -> None:
        """No messages until `resume_reading`; the peer has to stop when its window is full."""
        ...

    def resume_reading(self) -> None:
        """Goes on; messages that have come meanwhile are handed on before this returns."""
        ...

    def cancel(self) -> None:
        """Ends the call at both ends with CANCELLED; `on_end` follows at once."""
        ...


class ClientStreamCall(StreamCall, Protocol):
    """A client's call. Messages sent before `on_open` wait for it."""

    def half_close(self) -> None:
        """Sends nothing more, after everything that was sent."""
        ...


class ServerStreamCall(StreamCall, Protocol):
    """A server's call."""

    @property
    def path(self) -> str:
        """/package.Service/Method."""
        ...

    @property
    def metadata(self) -> Metadata:
        """The client's."""
        ...

    def send_initial_metadata(self, metadata: Metadata = ()) -> None:
        """Sends the response's headers now and not with the first message."""
        ...

    def finish(
        self, code: StatusCode = StatusCode.OK, details: str = "", metadata: Metadata = ()
    ) -> None:
        """Ends the call after everything that was sent; messages are dropped from now on."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCallbacks:
    """What a server's stream handler returns for a call."""

    on_message: Callable[[Message], None]
    on_half_close: Callable[[], None] = nothing
    """The client sends nothing more."""
    on_end: Callable[[Status], None] = no_end
    """Finished, cancelled, or lost; after the handler has returned, whoever ended the call."""
    on_writable: Callable[[], None] = nothing
    keeps_messages: bool = False
    """Messages stay in memory until the call ends. What the calls of one connection keep and receive
    has a limit, beyond which a call ends with RESOURCE_EXHAUSTED. Over grpc.aio neither has one."""
    memory: Callable[[], int] = no_memory
    """About how many bytes the call's owner keeps for the client beside that. If the calls of all
    clients keep too much, the connections with the most are closed, see `rpc.peer_memory`. Over
    grpc.aio nobody asks."""


StreamHandler = Callable[[ServerStreamCall], ServerCallbacks]


class StreamChannel(Protocol):
    """What opens streams to one peer."""

    def stream(
        self,
        path: str,
        *,
        on_message: Callable[[Message], None],
        on_end: Callable[[Status], None],
        on_open: Callable[[], None] = nothing,
        on_writable: Callable[[], None] = nothing,
        metadata: Metadata = (),
        timeout_s: float | None = None,
        wait_for_ready: bool = False,
    ) -> ClientStreamCall:
        """Begins a call; its callbacks are called later, never before this returns.

        `on_open`: the peer is connected and the call is on its way. A call that cannot connect
        ends with UNAVAILABLE, with `wait_for_ready` only at its deadline.
        """
        ...


class RpcChannel(StreamChannel, Protocol):
    """All that a client does with one peer."""

    async def unary(
        self,
        path: str,
        request: Request,
        *,
        serialize: Callable[[Request], bytes],
        deserialize: Callable[[bytearray], Response],
        timeout_s: float,
        metadata: Metadata = (),
        wait_for_ready: bool = False,
        idempotent: bool = False,
    ) -> Response:
        """One request and its response. Raises RpcError; cancelled with its task.

        `idempotent`: a read, which is repeated when the peer is unavailable.
        """
        ...

    async def close(self) -> None:
        """Cancels all calls and closes the connections."""
        ...
