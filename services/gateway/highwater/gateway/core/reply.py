"""Replies of a session: their places in the order of requests, and the memory of their parts."""

from typing import TypeAlias

from highwater.hop.fetch import FileRange

Part: TypeAlias = bytes | FileRange
"""A piece of a reply."""


class Reply:
    """A place in the order of replies. `parts` is None until the reply is ready.

    The size prefix is in the first part. `api_key` is the API that counts the reply, and
    `arrived_ns` the time when its request's frame was whole.
    """

    __slots__ = ("api_key", "arrived_ns", "parts", "request_bytes")

    def __init__(self, api_key: int, request_bytes: int, arrived_ns: int) -> None:
        self.api_key = api_key
        self.request_bytes = request_bytes
        self.arrived_ns = arrived_ns
        self.parts: bytes | list[Part] | None = None

    def abandon(self) -> None:
        """The client is gone: stops waiting for the services that were asked."""


def memory_of(parts: bytes | list[Part]) -> int:
    """Bytes that a reply holds in memory; file ranges hold none."""
    if isinstance(parts, bytes):
        return len(parts)
    return sum(len(part) for part in parts if isinstance(part, bytes))


def length_of(parts: list[Part]) -> int:
    """Bytes that the client gets, including those from files."""
    length = 0
    for part in parts:
        length += len(part) if isinstance(part, bytes) else part.length
    return length


def release_parts(parts: list[Part]) -> None:
    """Releases the files behind parts that will not be sent."""
    for part in parts:
        if not isinstance(part, bytes):
            part.release()
