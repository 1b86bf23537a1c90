"""Accepts connections whose TLS handshake is still to come, and knows how many these are.

`loop.create_server` tells of a connection only after its handshake, and of one that fails never.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final

from highwater.rpc.reports import OnFailure
from highwater.runtime.tasks import TaskOwner

HANDSHAKE_S: Final = 10.0
"""A handshake that takes longer ends its connection."""
ACCEPT_AGAIN_S: Final = 1.0
"""Pause after an error of accept, as in asyncio: without descriptors the next ones fail, too."""
CLOSE_TIMEOUT_S: Final = 1.0


class TlsListener:
    """Lives from the server's start to its stop, on one loop."""

    def __init__(
        self,
        listener: socket.socket,
        tls: Callable[[], ssl.SSLContext],
        *,
        may_accept: Callable[[], bool],
        make_protocol: Callable[[], asyncio.BaseProtocol],
        on_failure: OnFailure,
    ) -> None:
        """Owns `listener` from now on. `tls` is asked for each handshake. A connection is closed at once unless `may_accept`.

        `make_protocol` is called for each handshake; its `connection_made` follows if that succeeds.
        """
        self._listener = listener
        self._tls = tls
        self._may_accept = may_accept
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._on_failure = on_failure
        self._tasks = TaskOwner(on_failure)
        self._accepting = self._tasks.start(self._accept(), name="accept")

    @property
    def handshakes(self) -> int:
        """Connections whose handshake is under way."""
        return len(self._tasks) - (not self._accepting.done())

    async def close(self) -> None:
        """Accepts no more, and closes connections that are in their handshake."""
        await self._tasks.close(timeout_s=CLOSE_TIMEOUT_S)
        self._listener.close()

    async def _accept(self) -> None:
        while True:
            try:
                accepted, _ = await self._loop.sock_accept(self._listener)
            except ConnectionAbortedError:
                continue  # The peer has gone meanwhile.
            except OSError as error:
                self._on_failure("accept", error)
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            if self._may_accept():
                self._tasks.start(self._shake_hands(accepted), name="TLS handshake")
            else:
                accepted.close()
            await asyncio.sleep(0)  # `sock_accept` does not wait while there are connections.

    async def _shake_hands(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol,
                accepted,
                ssl=self._tls(),
                ssl_handshake_timeout=HANDSHAKE_S,
            )
        except OSError:
            # The peer's fault: TLS has told it by an alert, or it is gone. Errors of TLS are OSErrors.
            accepted.close()
