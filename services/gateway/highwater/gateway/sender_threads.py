"""Threads that send large ranges of segment files, two on a two-core machine.

sendfile gives up the GIL, so the kernel copies while the loop goes on (measured: 2 threads reach
what Kafka's network threads reach). A thread gets its work from a queue as long as the pool, so
no one waits behind another: if none is free the caller sends on the loop.
"""

import os
import queue
import socket
import struct
import threading
from collections.abc import Callable
from typing import Final

from highwater.gateway.outbox import SEND_TIMEOUT_S

_TIMEOUT: Final = struct.pack("ll", int(SEND_TIMEOUT_S), int(SEND_TIMEOUT_S % 1 * 1_000_000))

Done = Callable[[int, OSError | None], None]
Work = tuple[socket.socket, bytes, int, int, int, Done]


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
        done: Done,
    ) -> bool:
        """Takes the work if a thread is free. Called on the loop only."""
        if self._free == 0:
            return False
        self._free -= 1
        self._queue.put((sock, header, fd, position, length, done))
        return True

    def _finished(self, done: Done, sent: int, error: OSError | None) -> None:
        self._free += 1
        done(sent, error)

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            sock, header, fd, position, length, done = work
            sent, error = send_range(sock, header, fd, position, length)
            self._call_soon_threadsafe(self._finished, done, sent, error)

    def stop(self) -> None:
        """Ends the threads after the work they have; waits for at most the send timeout each."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(SEND_TIMEOUT_S + 1)


def send_range(
    sock: socket.socket, header: bytes, fd: int, position: int, length: int
) -> tuple[int, OSError | None]:
    """Sends header and range in blocking mode; gives bytes sent, fewer if time ran out."""
    sent = 0
    try:
        os.set_blocking(sock.fileno(), True)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEOUT)
        try:
            while sent < len(header):
                sent += sock.send(header[sent:], socket.MSG_MORE)
            end = position + length
            while position < end:
                n = os.sendfile(sock.fileno(), fd, position, end - position)
                if n == 0:
                    return sent, OSError("a segment file is shorter than promised")
                position += n
                sent += n
        except BlockingIOError:
            return sent, None  # The reader stalls: the loop goes on with the rest.
        finally:
            os.set_blocking(sock.fileno(), False)
    except OSError as error:
        return sent, error
    return sent, None
