"""Whether the process behind an address has ended, as the kernel of its host tells at once.

A refused connection means that the host is there and nobody listens: a process that hangs, or that
was stopped, still has its connections accepted. Everything else (no answer, no such host) says
nothing, and the session or the lease has to run out.
"""

import asyncio
from typing import Final

CONNECT_TIMEOUT_S: Final = 1.0
RETRY_S: Final = 0.2
READ_BYTES: Final = 4_096


async def is_refused(address: str) -> bool:
    """True if the host of host:port says that nobody listens there."""
    connection = await _connect(address)
    if isinstance(connection, tuple):
        connection[1].close()
        return False
    return isinstance(connection, ConnectionRefusedError)


async def until_gone(address: str) -> None:
    """Waits until the process at host:port, once it was connected, has ended and nobody listens there.

    Waits for ever for an address that never accepted a connection from here: the address is wrong
    then, which does not mean that the process is dead.
    """
    was_there = False
    while True:
        connection = await _connect(address)
        if isinstance(connection, tuple):
            was_there = True
            await _until_closed(*connection)
            continue
        if was_there and isinstance(connection, ConnectionRefusedError):
            return
        await asyncio.sleep(RETRY_S)


async def _connect(
    address: str,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | Exception:
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, ValueError) as error:  # A TimeoutError is an OSError, too.
        return error


async def _until_closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The server's greeting is read and thrown away; what is waited for is the end."""
    try:
        while await reader.read(READ_BYTES):
            pass
    except OSError:
        pass  # Reset instead of closed: an end, too.
    finally:
        writer.close()
    # Servers close connections that say nothing; those that are still there are asked again.
    await asyncio.sleep(0)
