"""A PROXY protocol header, the first bytes of a connection behind a balancer: names the client."""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from highwater.model.networks import Networks
from highwater.runtime.proxy_protocol import (
    PREFIX_BYTES,
    ProxiedClient,
    ProxyHeaderError,
    header_bytes,
    read_header,
)

HEADER_S_MAX: Final = 5.0
"""Balancers send the header at once; a connection that sends nothing is not from one."""


class Preface(asyncio.BufferedProtocol):
    """Reads exactly the header, then hands the socket to the next protocol, and ends.

    It reads nothing behind the header, since the buffer is never longer than the missing part.
    """

    def __init__(
        self,
        *,
        proxies: Networks | None = None,
        accept: Callable[[ProxiedClient | None], asyncio.BaseProtocol],
        prefaces: "set[Preface]",
        on_refused: Callable[[str], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`proxies` are the addresses that a header is believed from; None: all.

        `accept` makes the next protocol; the client is the socket's peer if none is named. `on_refused` gets
        the reason for closing a connection.
        """
        self._proxies = proxies
        self._accept = accept
        self._prefaces = prefaces
        self._on_refused = on_refused
        self._loop = loop
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._header = bytearray(PREFIX_BYTES)
        self._filled = 0
        self._whole = 0
        """Bytes of the header; 0 until its prefix has arrived."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Waits for the header."""
        self._transport = cast("asyncio.Transport", transport)
        self._prefaces.add(self)
        if self._proxies is not None:
            name = transport.get_extra_info("peername")
            if name is None or not self._proxies.holds(name[0]):
                self._refuse(f"{name and name[0]} is not in proxy_networks")
                return
        self._timer = self._loop.call_later(HEADER_S_MAX, self._refuse, "no header in time")

    def get_buffer(self, _sizehint: int) -> memoryview:
        """A buffer for the missing part of the prefix, then of the header."""
        return memoryview(self._header)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        """Takes the bytes read; the last byte of the header ends this protocol."""
        self._filled += nbytes
        if self._filled < len(self._header):
            return
        try:
            if not self._whole:
                self._whole = header_bytes(bytes(self._header))
                # A new object: the loop may still hold a view of the old one.
                self._header = self._header + bytes(self._whole - PREFIX_BYTES)
                if self._filled < self._whole:
                    return
            client = read_header(bytes(self._header))
        except ProxyHeaderError as error:
            self._refuse(str(error))
            return
        self._hand_over(client)

    def eof_received(self) -> bool:
        """Closes a connection that ends before its header, such as a plain health check."""
        return False

    def connection_lost(self, _exc: Exception | None) -> None:
        """The socket is gone, or closed."""
        self._end()

    def close(self) -> None:
        """Closes at once."""
        self._end()
        self._transport.abort()

    def _refuse(self, reason: str) -> None:
        self._on_refused(reason)
        self.close()

    def _hand_over(self, client: ProxiedClient | None) -> None:
        self._end()
        protocol = self._accept(client)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)

    def _end(self) -> None:
        self._prefaces.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
