"""What owners of streams hear. All methods must return soon and must not raise."""

from typing import Protocol

from highwater.http2.headers import Fields

Buffer = bytes | bytearray | memoryview
"""Of single bytes; must not change until it has been sent."""


class PayloadSink(Protocol):
    """Takes the DATA payload of one stream, in pieces cut anywhere.

    Payload counts as consumed, and its window is given back, unless the sink says
    `Stream.hold(nbytes)` before it returns, and later `Stream.release(nbytes)`.
    """

    def take(self, buffer: bytearray, start: int, end: int) -> None:
        """The piece buffer[start:end]; `buffer` is used again afterwards."""
        ...

    def room(self, nbytes: int) -> memoryview | None:
        """Memory for up to `nbytes` more bytes, to receive them in place; None to get `take`."""
        ...

    def filled(self, nbytes: int) -> None:
        """The first `nbytes` bytes of the last `room` have been received."""
        ...


class StreamOwner(Protocol):
    """Gets one stream's events. After `on_reset`, `on_lost`, or both ends, the stream is forgotten."""

    def on_response(self, status: int, fields: Fields) -> None:
        """A client's stream has its response's header section; status is HTTP's."""
        ...

    def on_trailers(self, fields: Fields) -> None:
        """The trailer section; `on_remote_end` follows."""
        ...

    def on_remote_end(self) -> None:
        """END_STREAM: the peer sends nothing more."""
        ...

    def on_local_end(self) -> None:
        """Our END_STREAM is on its way to the socket, after everything else."""
        ...

    def on_reset(self, code: int, words: str, *, by_peer: bool) -> None:
        """The peer has reset the stream, or has violated the protocol on it; not for our own."""
        ...

    def on_lost(self, words: str, *, unprocessed: bool) -> None:
        """The connection is gone. `unprocessed`: the peer certainly did not handle the stream."""
        ...

    def on_writable(self) -> None:
        """What had to wait has been sent; see `Stream.can_send`."""
        ...

    def memory(self) -> int:
        """About how many bytes it keeps for the peer, beside what the stream itself does.

        Asked for at times, never on the way of a message.
        """
        ...
