"""What the owner of a connection is called for. All methods must return soon and must not raise."""

from typing import Protocol

from highwater.http2.headers import RequestHeaders
from highwater.http2.stream import Stream


class ConnectionOwner(Protocol):
    """Gets the events of the connection as a whole."""

    def on_settings(self) -> None:
        """The peer's SETTINGS are here, for the first time or changed."""
        ...

    def on_request(self, stream: Stream, request: RequestHeaders) -> None:
        """The peer has opened a stream, whose owner and payload sink are to be set now."""
        ...

    def on_ping_ack(self, payload: bytes) -> None:
        """A PING of ours was answered."""
        ...

    def on_goaway(self, code: int, words: str) -> None:
        """The peer takes no new streams."""
        ...

    def on_stream_closed(self) -> None:
        """A stream was forgotten; there may be room for another one, or none may be left."""
        ...

    def on_closing(self, words: str) -> None:
        """The peer broke the protocol: close the socket after what is in the output."""
        ...
