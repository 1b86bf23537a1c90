"""A TCP server of tests that answers each frame of a connection in its turn."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

_ACCEPT_POLL_S = 0.1
_SOCKET_TIMEOUT_S = 10.0
_JOIN_TIMEOUT_S = 10.0


@dataclass(slots=True)
class FrameServer:
    """Use as a context manager. `answer` gets a frame without its length and the number of its
    connection, on a thread of that one, and returns the answer with its length. `tls` has the server's
    certificate; without it connections are plain. With `receive_bytes` sockets hold about that much.
    """

    answer: Callable[[bytes, int], bytes]
    tls: ssl.SSLContext | None = None
    receive_bytes: int = 0
    _listener: socket.socket = field(default_factory=socket.socket)
    _threads: list[threading.Thread] = field(default_factory=list)
    _closing: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        if self.receive_bytes:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_bytes)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(64)
        self._listener.settimeout(_ACCEPT_POLL_S)
        self._spawn(self._accept)
        return self

    def __exit__(self, *exception: object) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join(_JOIN_TIMEOUT_S)
        self._listener.close()

    @property
    def address(self) -> str:
        """host:port."""
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def _spawn(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        count = 0
        while not self._closing.is_set():
            try:
                peer, _ = self._listener.accept()
            except TimeoutError:
                continue
            peer.settimeout(_SOCKET_TIMEOUT_S)
            self._spawn(self._serve, peer, count)
            count += 1

    def _serve(self, peer: socket.socket, connection: int) -> None:
        # If the generator gives up, it resets its connections.
        with contextlib.suppress(ConnectionError), peer:
            used = self.tls.wrap_socket(peer, server_side=True) if self.tls else peer
            with used, used.makefile("rb") as stream:
                while len(prefix := stream.read(4)) == 4:
                    frame = stream.read(int.from_bytes(prefix, "big"))
                    used.sendall(self.answer(frame, connection))
