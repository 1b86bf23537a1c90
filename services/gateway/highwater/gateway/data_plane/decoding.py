"""Decodes a Produce or Fetch frame that the fast path does not handle."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from highwater.gateway.routing.client import ClientSession
from highwater.kafka.errors import DecodeError
from highwater.kafka.framing import decode_request_header
from highwater.kafka.primitives import Buffer

Request = TypeVar("Request")


class RequestDecoder(Generic[Request]):
    """Decodes the requests of one API. Lives as long as the process, without state."""

    __slots__ = ("_decode", "_name", "_versions")

    def __init__(
        self, name: str, versions: range, decode: Callable[[Buffer, int, int], Request]
    ) -> None:
        """`versions` are served; `decode` is the codec's, by buffer, position and version."""
        self._name: Final = name
        self._versions: Final = versions
        self._decode: Final = decode

    def decode(self, session: ClientSession, frame: bytearray, version: int) -> Request | None:
        """The request, or None if it gets no answer and its connection was closed."""
        if version not in self._versions:
            session.refuse(len(frame), f"{self._name} version {version} is not served")
            return None
        try:
            *_, body_at = decode_request_header(frame, 0)
            return self._decode(frame, body_at, version)
        except DecodeError as error:
            session.refuse(len(frame), f"malformed {self._name}: {error}")
            return None
