"""Lets the kernel close a TCP connection whose other end cannot be reached any more."""

import socket
from typing import Final

SILENT_S: Final = 5
"""Seconds until then. By default Linux tries for a quarter of an hour, also for a socket that is closed."""
_IDLE_S: Final = 2
_PROBE_EVERY_S: Final = 1
_TCP_USER_TIMEOUT: Final[int | None] = getattr(socket, "TCP_USER_TIMEOUT", None)
_TCP_KEEPIDLE: Final[int | None] = getattr(socket, "TCP_KEEPIDLE", None)


def drop_unsent(sock: socket.socket) -> None:
    """Closes the connection if what is sent is not acknowledged for SILENT_S, and sends it no more.

    That goes for a peer, too, that is there, and has no room for more as it has read nothing for so long
    (tcp(7), TCP_USER_TIMEOUT). Systems without the option keep their own limits; Linux has it.
    """
    if _TCP_USER_TIMEOUT is not None:
        sock.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, SILENT_S * 1000)


def close_when_silent(sock: socket.socket) -> None:
    """Closes the connection if its peer, to which nothing is being sent, is not heard for SILENT_S.

    The kernel asks it. What such a peer has sent, and the network has held back, is then never read. A peer that is
    there and reads slowly is no silent one.
    """
    if _TCP_KEEPIDLE is not None:
        sock.setsockopt(socket.IPPROTO_TCP, _TCP_KEEPIDLE, _IDLE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_EVERY_S)
        probes = (SILENT_S - _IDLE_S) // _PROBE_EVERY_S
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
