"""Looks up the gateways' addresses and checks the health of each, periodically."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Sequence
from struct import Struct
from typing import Final

from highwater.balancer.core.pool import Pool
from highwater.runtime.logging import Logger
from highwater.runtime.proxy_protocol import LOCAL_HEADER

ADDRESSES_MAX: Final = 1000
"""Addresses of all gateways; further ones are ignored."""

_CORRELATION: Final = 1
_CLIENT: Final = b"balancer"
_HEAD: Final = Struct(">ihhih")
_ANSWER: Final = Struct(">ii")
QUESTION: Final = (
    _HEAD.pack(_HEAD.size - 4 + len(_CLIENT), 18, 0, _CORRELATION, len(_CLIENT)) + _CLIENT
)
"""ApiVersions 0, which every gateway answers at once."""
_SERVER_HELLO: Final = Struct(">B4sB")
"""The type of a record of TLS, its version and length, and the type of its first message."""
_HELLO: Final = 22, 2


class HealthChecks:
    """Keeps a pool up to date while `run` runs."""

    def __init__(
        self,
        pool: Pool,
        *,
        gateways: Sequence[str],
        port: int,
        proxy_protocol: bool,
        tls: bool = False,
        every_s: float,
        timeout_s: float,
        log: Logger,
    ) -> None:
        """`port` is the gateways' bootstrap port. With `tls` they are asked for a handshake, without an end:
        no certificate is looked at, and none is shown.
        """
        self._pool = pool
        self._gateways = gateways
        self._port = port
        self._header = LOCAL_HEADER if proxy_protocol else b""
        self._tls = tls
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._log = log
        self._unknown: set[str] = set()
        """Names whose last look-up failed."""
        self._found: dict[str, list[str]] = {}

    async def run(self) -> None:
        """Checks until it is cancelled."""
        while True:
            await self.check_once()
            await asyncio.sleep(self._every_s)

    async def check_once(self) -> None:
        """Looks up all names and checks all addresses at the same time."""
        addresses: list[str] = []
        for name in self._gateways:
            addresses += await self._look_up(name)
        self._pool.resolved(dict.fromkeys(addresses[:ADDRESSES_MAX]))
        async with asyncio.TaskGroup() as group:
            for address in self._pool.addresses:
                group.create_task(self._check(address))

    async def _look_up(self, name: str) -> list[str]:
        """All addresses of a name; the former ones if the look-up fails."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError) as error:
            if name not in self._unknown:
                self._unknown.add(name)
                self._log.warning("gateway_name_unknown", name=name, error=str(error))
            return self._found.get(name, [])
        self._unknown.discard(name)
        self._found[name] = [str(one[4][0]) for one in found]
        return self._found[name]

    async def _check(self, address: str) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._ask(address)
            problem = ""
        except TimeoutError:
            problem = "no answer in time"
        except (OSError, EOFError, ValueError) as error:
            problem = str(error) or type(error).__name__
        if not self._pool.checked(address, healthy=not problem):
            return
        if problem:
            self._log.warning("gateway_down", address=address, error=problem)
        else:
            self._log.info("gateway_up", address=address)

    async def _ask(self, address: str) -> None:
        reader, writer = await asyncio.open_connection(address, self._port)
        try:
            if self._tls:
                writer.write(self._header + _client_hello())
                begin = await reader.readexactly(_SERVER_HELLO.size)
                record, _, message = _SERVER_HELLO.unpack(begin)
                if (record, message) != _HELLO:
                    raise ValueError("no answer to a handshake of TLS")
                return
            writer.write(self._header + QUESTION)
            size, correlation = _ANSWER.unpack(await reader.readexactly(_ANSWER.size))
            if size < _ANSWER.size - 4 or correlation != _CORRELATION:
                raise ValueError("not the answer of a gateway")
        finally:
            writer.transport.abort()


def _client_hello() -> bytes:
    """The first message of a handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # The handshake ends before there is anything to check.
    hello = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), hello).do_handshake()
    return hello.read()
