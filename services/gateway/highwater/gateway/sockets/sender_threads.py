"""Threads that send large segment file ranges, two on a two-core machine.

sendfile releases the GIL, so the kernel copies while the loop runs on (measured: 2 threads reach
the throughput of Kafka's network threads). There is no queue: if no thread is free, the caller
sends on the loop. Sockets stay non-blocking, since the reader shares the flag; a thread waits for a
full socket with poll, for a limited time.
"""

import os
import queue
import select
import socket
import threading
import time
from collections.abc import Callable

from highwater.gateway.sockets.outbox import SEND_TIMEOUT_S

Done = Callable[[int, OSError | None], None]
Work = tuple[socket.socket, bytes, int, int, int, bytes, Done]


class SenderThreads:
    """The pool. `call_soon_threadsafe` brings results back to the loop."""

    def __init__(self, threads: int, call_soon_threadsafe: Callable[..., object]) -> None:
        self._call_soon_threadsafe = call_soon_threadsafe
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._free = threads
        self._threads = [
            threading.Thread(target=self._run, name=f"sender-{i}", daemon=True)
            for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def send(
        self,
        sock: socket.socket,
        header: bytes,
        fd: int,
        position: int,
        length: int,
        trailer: bytes,
        done: Done,
    ) -> bool:
        """Takes the work if a thread is free. Called on the loop only."""
        if self._free == 0:
            return False
        self._free -= 1
        self._queue.put((sock, header, fd, position, length, trailer, done))
        return True

    def _finished(self, done: Done, sent: int, error: OSError | None) -> None:
        self._free += 1
        done(sent, error)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            sock, header, fd, position, length, trailer, done = work
            sent, error = send_range(sock, header, fd, position, length, trailer)
            self._call_soon_threadsafe(self._finished, done, sent, error)

    def stop(self) -> None:
        """Ends the threads after their present work; waits at most the send timeout for each."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(SEND_TIMEOUT_S + 1)


def send_range(
    sock: socket.socket,
    header: bytes,
    fd: int,
    position: int,
    length: int,
    trailer: bytes,
    timeout_s: float = SEND_TIMEOUT_S,
) -> tuple[int, OSError | None]:
    """Sends header, range and trailer; bytes sent, fewer if the reader stalls."""
    out = sock.fileno()
    sent = 0
    first = len(header)
    end = first + length
    total = end + len(trailer)
    deadline = 0.0
    poll: select.poll | None = None
    while sent < total:
        try:
            if sent < first:
                sent += sock.send(header[sent:], socket.MSG_MORE)
            elif sent < end:
                n = os.sendfile(out, fd, position + sent - first, end - sent)
                if n == 0:
                    return sent, OSError("a segment file is shorter than promised")
                sent += n
            else:
                sent += sock.send(trailer[sent - end :])
        except BlockingIOError:
            if poll is None:
                poll = select.poll()
                poll.register(out, select.POLLOUT)
                deadline = time.monotonic() + timeout_s
            left_ms = (deadline - time.monotonic()) * 1000
            if left_ms <= 0 or not poll.poll(left_ms):
                return sent, None  # The reader stalls: the loop sends the rest.
        except OSError as error:
            return sent, error
    return sent, None
