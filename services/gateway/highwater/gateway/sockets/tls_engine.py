"""One connection's TLS as bytes in and bytes out: an SSL object over two buffers, without a socket.

OpenSSL lets one thread at a time use a connection, and its two buffers belong to it; `tls_loan` sees
to that. Calls that do much work release Python's lock. What TLS has to say by itself (answers to a
KeyUpdate, alerts) collects behind what was encrypted before, and leaves with the next bytes taken.
"""

import contextlib
import ssl
from collections.abc import Mapping
from typing import Any, cast


class TlsEngine:
    """A server's end. Lives as long as its connection."""

    __slots__ = ("_incoming", "_outgoing", "_ssl", "ended")

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.ended = False
        """The peer has said that it sends no more (close_notify); it may still read."""

    @property
    def unread(self) -> int:
        """Bytes that have come and were not given by `read_into`, encrypted ones as they are."""
        return self._incoming.pending + self._ssl.pending()

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        """What the peer's certificate says, if it has shown one that was checked."""
        return self._ssl.getpeercert()

    def receive(self, data: bytes | memoryview) -> None:
        """Takes bytes of the socket."""
        self._incoming.write(data)

    def take(self) -> bytes:
        """What has to be sent, perhaps nothing."""
        return self._outgoing.read() if self._outgoing.pending else b""

    def handshake(self) -> bool:
        """Goes as far as the received bytes allow; True if the handshake is complete.

        Raises ssl.SSLError; `take` then gives the alert that tells the peer.
        """
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def read_into(self, view: memoryview) -> int:
        """Decrypts; how many bytes there were. Fewer than `view` has room for: there are no more now.

        Raises ssl.SSLError, also for bytes that somebody has changed on their way.
        """
        size = len(view)
        filled = 0
        try:
            while filled < size and self.unread:
                # With a buffer it gives their number, which type stubs do not know.
                count = cast("int", self._ssl.read(size - filled, view[filled:]))
                if not count:
                    self.ended = True
                    break
                filled += count
        except ssl.SSLWantReadError:
            pass  # The rest of a record is still to come.
        except ssl.SSLZeroReturnError:
            self.ended = True
        return filled

    def encrypt(self, data: bytes | bytearray | memoryview) -> bytes:
        """The records that carry `data`, which is not empty. Raises ssl.SSLError."""
        self._ssl.write(data)
        return self._outgoing.read()

    def farewell(self) -> bytes:
        """Says that no more is sent (close_notify); nothing may be encrypted afterwards."""
        # It wants to read the peer's answer, which nobody waits for; or TLS has failed before.
        with contextlib.suppress(ssl.SSLError):
            self._ssl.unwrap()
        return self.take()
