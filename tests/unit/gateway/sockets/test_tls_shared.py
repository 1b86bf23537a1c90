"""What connections share lives as long as the listeners."""

import asyncio
import threading
from contextlib import AsyncExitStack

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.sockets.tls_shared import READ_BYTES, shared_tls


async def test_records_and_handshakes_have_threads_of_their_own_that_stop():
    names = []
    done = asyncio.Event()

    def note(name):
        names.append(name)
        if len(names) == 2:
            done.set()

    async with AsyncExitStack() as stack:
        tls = shared_tls(stack, asyncio.get_running_loop(), 2, MemoryBudget(1 << 20))
        assert len(tls.buffer) == READ_BYTES
        for pool in (tls.threads, tls.handshakes):
            pool.run(lambda: threading.current_thread().name, note)
        async with asyncio.timeout(30):
            await done.wait()
    assert {name.rpartition("-")[0] for name in names} == {"tls", "tls-handshake"}
    assert not [each for each in threading.enumerate() if each.name.startswith("tls")]
