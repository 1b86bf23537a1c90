"""What all connections with TLS of a gateway share: threads, and where sockets are read into."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from highwater.gateway.sockets.tls_loan import Threads
from highwater.gateway.sockets.tls_outbox import Memory
from highwater.gateway.sockets.tls_threads import TlsThreads

READ_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTls:
    """Lives as long as the gateway's listeners."""

    threads: Threads
    """For records."""
    handshakes: Threads
    """For handshakes, so that a flood of them delays no records."""
    memory: Memory
    buffer: memoryview
    """Where sockets are read into; of `READ_BYTES`."""


def shared_tls(
    stack: AsyncExitStack, loop: asyncio.AbstractEventLoop, threads: int, memory: Memory
) -> SharedTls:
    """With so many threads for records; they stop when the stack is closed."""
    records = TlsThreads(threads, loop.call_soon_threadsafe, name="tls")
    handshakes = TlsThreads(1, loop.call_soon_threadsafe, name="tls-handshake")
    for pool in (records, handshakes):
        stack.callback(pool.stop)
    return SharedTls(
        threads=records,
        handshakes=handshakes,
        memory=memory,
        buffer=memoryview(bytearray(READ_BYTES)),
    )
