"""A listener on loopback, with a handler that the test plays."""

import asyncio
import contextlib
import time

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.core.meters import RequestMeters
from highwater.gateway.core.reply import Reply
from highwater.gateway.core.shared_input import SharedInput
from highwater.gateway.core.standstill import Standstill
from highwater.gateway.core.turn import Turn
from highwater.gateway.routing.table import RoutingTable
from highwater.gateway.sockets.listener import Listener
from highwater.gateway.sockets.newcomers import ListenAddress
from highwater.gateway.sockets.tls_shared import READ_BYTES, SharedTls
from highwater.gateway.sockets.tls_threads import TlsThreads
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.runtime.clock import boot_ms
from highwater.runtime.logging import silent_logger
from tests.unit.gateway.core.session_world import PRODUCE, number_of
from tests.unit.gateway.quota.quota_world import client_quotas


class NoThreads:
    def send(self, *_work):
        return False


class SessionReply(Reply):
    """Refers to its session, so that a test can complete it later."""

    def __init__(self, session, request_bytes):
        super().__init__(PRODUCE, request_bytes, session.arrived_ns)
        self.session = session


class Handler:
    """Answers with the request's number, or keeps the request if `keep` is set."""

    def __init__(self):
        self.keep = False
        self.kept = []
        self.peers = []

    def produce(self, session, frame):
        self.peers.append(session.client.peer)
        reply = SessionReply(session, len(frame))
        session.expect(reply)
        if self.keep:
            self.kept.append(reply)
        else:
            session.complete(reply, b"%d;" % number_of(frame))

    fetch = other = produce


class Gate:
    """Notes who has to log in; `ended` counts the logins of connections that are closed."""

    def __init__(self):
        self.admitted = []
        self.ended = 0

    def admit(self, session, mechanisms):
        self.admitted.append(mechanisms)
        session.client.login = self

    def close(self):
        self.ended += 1


class World:
    def __init__(self):
        loop = asyncio.get_running_loop()
        self.handler = Handler()
        self.gate = Gate()
        self.quotas = client_quotas()
        self.quotas.handle_by(self.handler, None)
        self.budget = MemoryBudget(1 << 20)
        self.threads = [TlsThreads(1, loop.call_soon_threadsafe, name=name) for name in "ab"]
        self.tls = SharedTls(
            threads=self.threads[0],
            handshakes=self.threads[1],
            memory=self.budget,
            buffer=memoryview(bytearray(READ_BYTES)),
        )
        self.shared = SharedInput(
            standstill=Standstill(boot_ms),
            turn=Turn(loop.call_soon, time.monotonic_ns),
            budget=self.budget,
            meters=RequestMeters(),
            frame_bytes_max=1 << 20,
            in_flight_bytes_max=1 << 20,
        )
        self.listeners = []

    async def listen(
        self,
        *,
        connections_max=100,
        idle_s_max=1000.0,
        frame_s_max=1000.0,
        log=None,
        proxy_protocol=False,
        sasl_mechanisms=(),
        **secure,
    ):
        self.routing = RoutingTable(lambda _node: None)
        self.listener = Listener(
            addresses={
                DEFAULT_LISTENER: ListenAddress(
                    host="127.0.0.1",
                    proxy_protocol=proxy_protocol,
                    sasl_mechanisms=sasl_mechanisms,
                    **secure,
                ),
                "internal": ListenAddress(host="127.0.0.1"),
                "elsewhere": ListenAddress(host="127.0.0.2"),
                "everywhere": ListenAddress(host="0.0.0.0"),
                "ipv6": ListenAddress(host="::1"),
            },
            shared=self.shared,
            handler=self.handler,
            gate=self.gate,
            quotas=self.quotas,
            routing=self.routing,
            pool=NoThreads(),
            tls=self.tls,
            log=log or silent_logger(),
            connections_max=connections_max,
            idle_s_max=idle_s_max,
            frame_s_max=frame_s_max,
        )
        self.listeners.append(self.listener)
        self.port = await self.listener.open_port(DEFAULT_LISTENER, DEFAULT_INSTANCE, None, 0)

    @contextlib.asynccontextmanager
    async def client(self, host="127.0.0.1"):
        reader, writer = await asyncio.open_connection(host, self.port)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


async def closed(reader):
    """True when the peer has ended the connection."""
    async with asyncio.timeout(5):
        try:
            return await reader.read(1) == b""
        except ConnectionResetError:
            return True
