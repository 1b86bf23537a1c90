"""From the frame of a Produce or Fetch to its message, where the short way is not taken."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from highwater.gateway.routing.client import ClientSession
from highwater.kafka.errors import DecodeError
from highwater.kafka.framing import decode_request_header
from highwater.kafka.primitives import Buffer

Request = TypeVar("Request")


class RequestDecoder(Generic[Request]):
    """Decodes the requests of one API. Lives as long as the process and remembers nothing."""

    __slots__ = ("_decode", "_name", "_versions")

    def __init__(
        self, name: str, versions: range, decode: Callable[[Buffer, int, int], Request]
    ) -> None:
        """`versions` are served; `decode` is the generated codec's, by buffer, place and version."""
        self._name: Final = name
        self._versions: Final = versions
        self._decode: Final = decode

    def decode(self, session: ClientSession, frame: bytearray, version: int) -> Request | None:
        """The request, or None if it gets no answer and its connection has been closed."""
        if version not in self._versions:
            session.refuse(len(frame), f"{self._name} version {version} is not served")
            return None
        try:
            *_, body_at = decode_request_header(frame, 0)
            return self._decode(frame, body_at, version)
        except DecodeError as error:
            session.refuse(len(frame), f"malformed {self._name}: {error}")
            return None
