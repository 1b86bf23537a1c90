"""Whether the process at an address has ended: the kernel of its host says so at once.

A refused connection means that the host runs and nothing listens on the port. A process that hangs,
or that was stopped, still has its connections accepted. Any other failure (no answer, no such host)
proves nothing, and the session or the lease has to run out.
"""

import asyncio
from typing import Final

CONNECT_TIMEOUT_S: Final = 1.0
RETRY_S: Final = 0.2
READ_BYTES: Final = 4_096


async def is_refused(address: str) -> bool:
    """True if the kernel at host:port refuses the connection."""
    connection = await _connect(address)
    if isinstance(connection, tuple):
        connection[1].close()
        return False
    return isinstance(connection, ConnectionRefusedError)


async def until_gone(address: str) -> None:
    """Waits until a connection to host:port was made, has closed, and is refused when tried again.

    If the address never accepts a connection, waits for ever: the address is probably wrong, which
    does not mean that the process is dead.
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
    """Reads and drops the server's greeting until the connection ends."""
    try:
        while await reader.read(READ_BYTES):
            pass
    except OSError:
        pass  # A reset is an end, too.
    finally:
        writer.close()
    # Servers close idle connections; if the server still listens, the caller connects again.
    await asyncio.sleep(0)
