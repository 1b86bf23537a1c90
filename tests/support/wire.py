"""A Kafka connection without a client: our own codec over a blocking socket."""

from __future__ import annotations

import socket
import ssl
import struct
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, Self

from highwater.kafka.framing import decode_response_header, encode_request_header, frame
from highwater.kafka.message import Message
from highwater.kafka.registry import request_codec

TIMEOUT_S = 20.0
"""Longest wait for any reply of a healthy broker."""

_LENGTH = struct.Struct(">i")
_RESPONSE_BYTES_MAX = 128 * 1024 * 1024


class ConnectionEnded(Exception):
    """The broker closed the connection where a reply was awaited."""


class RawConnection:
    """One connection that sends any bytes, also those that no client would send.

    Replies are matched with requests by order, as in clients. Use as a context manager.
    """

    def __init__(
        self, host: str, port: int, *, source: str = "", timeout_s: float = TIMEOUT_S
    ) -> None:
        """`source` is the address that it comes from, if that matters."""
        self._socket: socket.socket = socket.create_connection(
            (host, port), timeout=timeout_s, source_address=(source, 0) if source else None
        )
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._awaited: deque[tuple[int, int, int]] = deque()
        self._next_correlation_id = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._socket.close()

    @classmethod
    def to(cls, bootstrap: str) -> Self:
        """Connects to the (first) address of a bootstrap string."""
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        return cls(host, int(port))

    @property
    def local_port(self) -> int:
        """Its port at this end."""
        return int(self._socket.getsockname()[1])

    def secure(self, context: ssl.SSLContext, host: str = "localhost") -> Self:
        """Shakes hands by TLS; call it before anything is sent."""
        self._socket = context.wrap_socket(self._socket, server_hostname=host)
        return self

    def ask(self, request: Message, version: int) -> Any:
        """Sends a request and returns the decoded reply. Raises ConnectionEnded."""
        self.send(request, version)
        return self.receive()

    def send(self, request: Message, version: int, *, answered: bool = True) -> int:
        """Sends a request and returns its correlation id; `answered` is false for acks=0."""
        api_key = api_key_of(request)
        correlation_id = self._take_correlation_id()
        if answered:
            self._awaited.append((api_key, version, correlation_id))
        self.send_bytes(request_frame(request, version, correlation_id))
        return correlation_id

    def send_bytes(self, *parts: bytes) -> None:
        """Sends bytes as they are."""
        self._socket.sendall(b"".join(parts))

    def receive(self) -> Any:
        """Returns the decoded reply to the oldest unanswered request.

        Asserts its correlation id and that the reply has no bytes behind its body.
        """
        api_key, version, correlation_id = self._awaited.popleft()
        content = self.receive_frame()
        got, pos = decode_response_header(content, 0, api_key, version)
        assert got == correlation_id, f"correlation id {got} instead of {correlation_id}"
        codec = request_codec(api_key)
        response = codec.decode_response(content, pos, version)
        encoded = codec.encode_response(response, version)
        assert len(encoded) == len(content) - pos, "bytes behind the reply's body"
        return response

    def receive_frame(self) -> memoryview:
        """Returns the content of the next frame. Raises ConnectionEnded or TimeoutError."""
        (length,) = _LENGTH.unpack(self._receive_exactly(_LENGTH.size))
        assert 0 <= length <= _RESPONSE_BYTES_MAX
        return memoryview(self._receive_exactly(length))

    def wait_for_close(self, timeout_s: float = TIMEOUT_S) -> None:
        """Returns when the broker closes without sending; AssertionError if it sends a byte."""
        self._socket.settimeout(timeout_s)
        try:
            data = self._socket.recv(1)
        except ConnectionResetError:
            return
        assert data == b"", "the broker answered instead of closing"

    def shutdown_sending(self) -> None:
        """Closes our side for sending only."""
        self._socket.shutdown(socket.SHUT_WR)

    def _take_correlation_id(self) -> int:
        self._next_correlation_id += 1
        return self._next_correlation_id

    def _receive_exactly(self, size: int) -> bytes:
        buffer = bytearray()
        while len(buffer) < size:
            try:
                data = self._socket.recv(min(size - len(buffer), 1 << 20))
            except ConnectionResetError as error:
                raise ConnectionEnded("connection reset") from error
            if not data:
                raise ConnectionEnded(f"connection closed after {len(buffer)} of {size} bytes")
            buffer += data
        return bytes(buffer)


def api_key_of(message: Message) -> int:
    """Returns the API key of the generated module that the message's class is from."""
    key: int = sys.modules[type(message).__module__].API_KEY
    return key


def request_frame(
    request: Message, version: int, correlation_id: int, client_id: str | None = "raw"
) -> bytes:
    """Returns the whole frame of a request."""
    api_key = api_key_of(request)
    body = request_codec(api_key).encode_request(request, version)
    return frame(encode_request_header(api_key, version, correlation_id, client_id), body)


def only(items: Sequence[Any]) -> Any:
    """Returns the one item of a sequence."""
    assert len(items) == 1, f"{len(items)} items instead of one"
    return items[0]
