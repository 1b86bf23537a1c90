"""Replies of a session: places in the order of requests, and what their parts hold."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from highwater.gateway.core.session import Session


class Reply:
    """A place in the order of replies. `parts` is None until the reply is ready.

    A part is bytes, or a `FileRange` whose bytes follow; the size prefix is in the first part.
    """

    __slots__ = ("parts", "request_bytes", "session")

    def __init__(self, session: "Session", request_bytes: int) -> None:
        self.session = session
        self.request_bytes = request_bytes
        self.parts: bytes | list[Any] | None = None

    def abandon(self) -> None:
        """The client is gone: stop waiting for whatever was asked of others."""


def memory_of(parts: bytes | list[Any]) -> int:
    """Bytes that a reply holds; ranges of files count as nothing."""
    if type(parts) is bytes:
        return len(parts)
    return sum(len(part) for part in parts if isinstance(part, bytes | bytearray | memoryview))


def release_parts(parts: Any) -> None:
    """Gives back the files behind parts that will not be sent."""
    for part in parts:
        if type(part) is not bytes and hasattr(part, "release"):
            part.release()
