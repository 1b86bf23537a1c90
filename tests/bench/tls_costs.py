"""What an answer with TLS costs the loop, encrypted there or by a thread: `python -m tests.bench.tls_costs`.

A client that only reads, on a thread; the answer is a range of a file in the page cache. Prints the
processor time of the loop's thread for one answer, and how long one answer takes. `tls_outbox` has its
threshold from these numbers.
"""

import asyncio
import socket
import ssl
import tempfile
import threading
import time
from pathlib import Path
from unittest.mock import patch

import uvloop

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.sockets import tls_outbox
from highwater.gateway.sockets.outbox import Outbox
from highwater.gateway.sockets.sender_threads import SenderThreads
from highwater.gateway.sockets.tls_engine import TlsEngine
from highwater.gateway.sockets.tls_loan import TlsLoan
from highwater.gateway.sockets.tls_threads import TlsThreads
from tests.support.certificates import make_certificate, tls_contexts
from tests.unit.gateway.wires import Segment

SIZES = [1 << power for power in range(12, 19)]
ANSWERS = 300
NEVER = 1 << 40


def read_all(sock: socket.socket, context: ssl.SSLContext) -> None:
    buffer = bytearray(1 << 20)
    with context.wrap_socket(sock, server_hostname="localhost") as secure:
        while secure.recv_into(buffer):
            pass


def shake_hands(engine: TlsEngine, sock: socket.socket) -> None:
    done = False
    while not done:
        engine.receive(sock.recv(1 << 16))
        done = engine.handshake()
        sock.sendall(engine.take())


class Server:
    """One connection, and what it sends by."""

    def __init__(self, sock: socket.socket, engine: TlsEngine) -> None:
        loop = asyncio.get_running_loop()
        self.moved = asyncio.Event()
        self.pool = TlsThreads(2, loop.call_soon_threadsafe, name="tls")
        self.senders = SenderThreads(1, loop.call_soon_threadsafe)
        self.outbox = tls_outbox.TlsOutbox(
            Outbox(sock, loop=loop, pool=self.senders, on_error=print, on_held=self._held),
            engine=engine,
            loan=TlsLoan(self._back),
            threads=self.pool,
            memory=MemoryBudget(1 << 30),
            on_error=print,
            on_held=lambda _bytes, _behind: None,
        )

    def _held(self, nbytes: int, _behind: bool) -> None:
        self.outbox.lower_held(nbytes)
        self.moved.set()

    def _back(self) -> None:
        self.outbox.pump()
        self.moved.set()

    async def answer(self, segment: Segment, size: int) -> None:
        self.outbox.send([b"head", segment.range(0, size)])
        while not self.outbox.idle:
            self.moved.clear()
            await self.moved.wait()

    def close(self) -> None:
        self.outbox.close()
        self.pool.stop()
        self.senders.stop()


async def measure(directory: Path, size: int) -> tuple[float, float]:
    """(processor time of the loop, time) of one answer, in microseconds."""
    server_context, client_context = tls_contexts(make_certificate(directory))
    listening = socket.create_server(("127.0.0.1", 0))
    theirs = socket.create_connection(listening.getsockname())
    ours, _ = listening.accept()
    listening.close()
    reader = threading.Thread(target=read_all, args=(theirs, client_context))
    reader.start()
    engine = TlsEngine(server_context)
    shake_hands(engine, ours)
    ours.setblocking(False)
    server = Server(ours, engine)
    with Segment(directory / "log", SIZES[-1]) as segment:
        began_s, used_s = time.perf_counter(), time.thread_time()
        for _ in range(ANSWERS):
            await server.answer(segment, size)
        used_s = time.thread_time() - used_s
        took_s = time.perf_counter() - began_s
    server.close()
    reader.join()
    return used_s / ANSWERS * 1e6, took_s / ANSWERS * 1e6


async def main() -> None:
    print("bytes | on the loop: its time, in all | by a thread: the loop's time, in all (us)")
    for size in SIZES:
        found = []
        for threads_from in (NEVER, 1):
            with (
                tempfile.TemporaryDirectory() as directory,
                patch.object(tls_outbox, "THREAD_BYTES_MIN", threads_from),
            ):
                found.append(await measure(Path(directory), size))
        (here, here_all), (there, there_all) = found
        print(f"{size:8} | {here:7.0f} {here_all:7.0f} | {there:7.0f} {there_all:7.0f}")


if __name__ == "__main__":
    uvloop.run(main())
