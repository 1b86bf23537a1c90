"""Servers that listen, on a loop that does not tell when they cannot."""

import asyncio
import socket

from highwater.model.errors import PortInUseError


async def start_listening(server: asyncio.Server, address: str) -> None:
    """Listens on the ports that the server has bound; raises PortInUseError with `address` if it cannot.

    Two processes may both have bound a port as long as neither listens (SO_REUSEADDR). The second one
    that does is refused. asyncio raises an OSError then; uvloop closes the server's socket and says
    nothing (`UVStreamServer._fatal_error`). The server is closed when this raises, also if it is
    cancelled: nobody else would know of a port that is open already.
    """
    try:
        await server.start_serving()
        listens = _is_open(server)
    except OSError:
        listens = False
    except asyncio.CancelledError:
        server.close()
        raise
    if not listens:
        server.close()
        raise PortInUseError(address)


def _is_open(server: asyncio.Server) -> bool:
    # In place of a socket that it has closed uvloop gives None, or one without a descriptor.
    sockets: list[socket.socket | None] = list(server.sockets)
    return bool(sockets) and all(one is not None and one.fileno() >= 0 for one in sockets)
