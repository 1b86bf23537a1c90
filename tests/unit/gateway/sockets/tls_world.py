"""Both ends of TLS in memory, an outbox on a real socket, and threads that the test plays."""

import _ssl
import contextlib
import ctypes
import select
import socket
import ssl

from highwater.gateway.sockets.outbox import Outbox
from highwater.gateway.sockets.tls_engine import TlsEngine
from highwater.gateway.sockets.tls_loan import TlsLoan
from highwater.gateway.sockets.tls_outbox import TlsOutbox

_TLS_1_3 = 0x0304
_UPDATE_REQUESTED = 1
_AFTER_HEAD = 3 * ctypes.sizeof(ctypes.c_void_p)
"""CPython's _ssl._SSLSocket: the head of an object (two words), its socket, `SSL *`."""


class TlsPeer:
    """A client's end over memory BIOs."""

    def __init__(self, context):
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.ssl = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.ended = False

    def shake_hands(self, engine, *, at_most=1 << 20):
        """With an engine, by at most so many bytes at a time."""
        ours = theirs = False
        while not (ours and theirs):
            with contextlib.suppress(ssl.SSLWantReadError):
                self.ssl.do_handshake()
                theirs = True
            sent = self.outgoing.read()
            for start in range(0, len(sent), at_most):
                engine.receive(sent[start : start + at_most])
                ours = ours or engine.handshake()
            self.incoming.write(engine.take())
        self.receive(b"")

    def receive(self, data):
        """The plain bytes that are whole with `data`."""
        self.incoming.write(data)
        plain = b""
        try:
            while part := self.ssl.read(1 << 16):
                plain += part
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        return plain

    def send(self, data):
        self.ssl.write(data)
        return self.outgoing.read()

    def say_goodbye(self):
        with contextlib.suppress(ssl.SSLWantReadError):
            self.ssl.unwrap()
        return self.outgoing.read()

    def update_keys(self):
        """A KeyUpdate that asks for one in return. Python has no call for it, OpenSSL has."""
        openssl = ctypes.CDLL(_ssl.__file__)
        place = id(self.ssl._sslobj) + _AFTER_HEAD
        handle = ctypes.c_void_p.from_address(place)
        assert openssl.SSL_version(handle) == _TLS_1_3
        assert openssl.SSL_key_update(handle, _UPDATE_REQUESTED) == 1
        assert openssl.SSL_do_handshake(handle) == 1
        return self.outgoing.read()


class HeldThreads:
    """Work waits until the test runs it."""

    def __init__(self):
        self.waiting = []

    def run(self, work, done):
        self.waiting.append((work, done))

    def work(self):
        """Does the oldest, and reports it."""
        work, done = self.waiting.pop(0)
        done(outcome(work))


def outcome(work):
    try:
        return work()
    except OSError as error:
        return error


class NoThreads:
    def send(self, *_work):
        return False


class Loop:
    """`writable` is what the event loop does for a socket that has room."""

    def __init__(self):
        self.writers = {}

    def add_writer(self, fd, callback):
        self.writers[fd] = callback

    def remove_writer(self, fd):
        del self.writers[fd]

    def writable(self):
        for fd, callback in list(self.writers.items()):
            # Not select(): the descriptors of a long run are above its limit of 1 024.
            room = select.poll()
            room.register(fd, select.POLLOUT)
            if room.poll(0):
                callback()


class Memory:
    replies_scarce = False


class OutboxWorld:
    """An outbox whose client reads when the test says so."""

    def __init__(self, contexts, *, buffer_bytes=64 << 10):
        server, client = contexts
        self.ours, self.theirs = socket.socketpair()
        for sock in (self.ours, self.theirs):
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        self.engine, self.peer = TlsEngine(server), TlsPeer(client)
        self.peer.shake_hands(self.engine)
        self.loop, self.threads, self.memory = Loop(), HeldThreads(), Memory()
        self.loan = TlsLoan(self.back)
        self.errors, self.held = [], []
        self.lower = Outbox(
            self.ours,
            loop=self.loop,
            pool=NoThreads(),
            on_error=self.errors.append,
            on_held=lambda nbytes, _behind: self.outbox.lower_held(nbytes),
        )
        self.outbox = TlsOutbox(
            self.lower,
            engine=self.engine,
            loan=self.loan,
            threads=self.threads,
            memory=self.memory,
            on_error=self.errors.append,
            on_held=lambda nbytes, behind: self.held.append((nbytes, behind)),
        )
        self.got = b""
        self.read_bytes = 0
        self.unread = b""
        """What the client has sent while a thread had the engine."""

    def back(self):
        """As the stream: input first, then replies."""
        if self.unread:
            self.receive(b"")
        self.outbox.pump()

    def receive(self, data):
        """The client's bytes reach the engine when it is free."""
        self.unread += data
        if self.loan.free:
            self.engine.receive(self.unread)
            self.unread = b""
            view = memoryview(bytearray(1 << 16))
            while self.engine.read_into(view) == len(view):
                pass
            said = self.engine.take()
            if said:
                self.lower.send([said])

    def read(self, nbytes=1 << 20):
        """The client reads up to so many bytes."""
        with contextlib.suppress(BlockingIOError):
            data = self.theirs.recv(nbytes)
            self.read_bytes += len(data)
            self.got += self.peer.receive(data)

    def settle(self):
        """Lets everything happen until nothing is left to do."""
        while True:
            before = self.read_bytes
            while self.threads.waiting:
                self.threads.work()
            self.loop.writable()
            self.read()
            if self.read_bytes == before and not self.threads.waiting:
                return

    def close(self):
        self.outbox.close()
        while self.threads.waiting:
            self.threads.work()
        self.theirs.close()
