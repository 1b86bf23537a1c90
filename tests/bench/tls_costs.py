"""What an answer with TLS costs the loop, encrypted there or by a thread: `python -m tests.bench.tls_costs`.

A client that only reads, on a thread; the answer is a range of a file in the page cache. Prints the
processor time of the loop's thread for one answer, and how long one answer takes. `tls_outbox` has its
threshold from these numbers.
"""

import asyncio
import socket
import tempfile
import threading
import time
from pathlib import Path

import uvloop

from highwater.gateway.sockets import tls_outbox
from highwater.gateway.sockets.outbox import Outbox
from highwater.gateway.sockets.tls_engine import TlsEngine
from highwater.gateway.sockets.tls_loan import TlsLoan
from highwater.gateway.sockets.tls_threads import TlsThreads
from tests.support.certificates import make_certificate, tls_contexts
from tests.unit.gateway.sockets.tls_world import Memory, NoThreads, TlsPeer
from tests.unit.gateway.wires import Segment

SIZES = [1 << power for power in range(12, 21)]
ANSWERS = 300
NEVER = 1 << 40


def discard(sock: socket.socket) -> None:
    buffer = bytearray(1 << 20)
    while sock.recv_into(buffer):
        pass


async def measure(directory: Path, size: int, *, threads_from: int) -> tuple[float, float]:
    """(processor time of the loop, time) of one answer, in microseconds."""
    loop = asyncio.get_running_loop()
    tls_outbox.THREAD_BYTES_MIN = threads_from  # type: ignore[misc]  # It is measured.
    server, client = tls_contexts(make_certificate(directory))
    engine = TlsEngine(server)
    TlsPeer(client).shake_hands(engine)
    listening = socket.create_server(("127.0.0.1", 0))
    theirs = socket.create_connection(listening.getsockname())
    ours, _ = listening.accept()
    listening.close()
    ours.setblocking(False)
    reader = threading.Thread(target=discard, args=(theirs,))
    reader.start()
    sent = asyncio.Event()
    pool = TlsThreads(2, loop.call_soon_threadsafe, name="tls")
    loan = TlsLoan(lambda: (outbox.pump(), sent.set()))
    lower = Outbox(
        ours,
        loop=loop,
        pool=NoThreads(),
        on_error=print,
        on_held=lambda nbytes, _: (outbox.lower_held(nbytes), sent.set()),
    )
    outbox = tls_outbox.TlsOutbox(
        lower,
        engine=engine,
        loan=loan,
        threads=pool,
        memory=Memory(),
        on_error=print,
        on_held=lambda *_: None,
    )
    with Segment(directory / "log", SIZES[-1]) as segment:
        began_s, used_s = time.perf_counter(), time.thread_time()
        for _ in range(ANSWERS):
            outbox.send([b"head", segment.range(0, size)])
            while not outbox.idle:
                sent.clear()
                await sent.wait()
        used_s = time.thread_time() - used_s
        took_s = time.perf_counter() - began_s
    outbox.close()
    reader.join()
    theirs.close()
    pool.stop()
    return used_s / ANSWERS * 1e6, took_s / ANSWERS * 1e6


async def main() -> None:
    print("bytes | on the loop: its time, in all | by a thread: the loop's time, in all (us)")
    for size in SIZES:
        with tempfile.TemporaryDirectory() as directory:
            here = await measure(Path(directory), size, threads_from=NEVER)
            there = await measure(Path(directory), size, threads_from=1)
        print(f"{size:8} | {here[0]:7.0f} {here[1]:7.0f} | {there[0]:7.0f} {there[1]:7.0f}")


if __name__ == "__main__":
    uvloop.run(main())
