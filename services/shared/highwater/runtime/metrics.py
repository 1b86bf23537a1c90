"""An HTTP endpoint for Prometheus and probes, served on the asyncio loop.

GET /metrics gives the registry, /healthz answers as long as the loop runs, /readyz answers 200 or
503 with the checks that fail. The registry is an argument: with the library's global one, two nodes
in one process would collide. Rendering runs on the loop on purpose, because collectors read state
that only the loop may touch.
"""

import asyncio
import errno
import http
from contextlib import AsyncExitStack
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from pydantic import Field

from highwater.model.errors import BindError, PortInUseError
from highwater.runtime.health import Readiness
from highwater.runtime.settings import SettingsGroup

_HEADER_BYTES_MAX: Final = 8 << 10
_REQUEST_TIMEOUT_S: Final = 5.0
_CONNECTIONS_MAX: Final = 64
"""Enough for a scraper and a few probes."""


def process_registry() -> CollectorRegistry:
    """A new registry with this process's memory, CPU, open files and garbage collections."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class MetricsSettings(SettingsGroup):
    """Where /metrics, /healthz and /readyz are served."""

    host: str = Field(
        default="127.0.0.1", description="address of the HTTP endpoint for metrics and probes"
    )
    port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="its port; 0 lets the system choose, unset means off",
    )


class MetricsServer:
    """The endpoint; `start` binds it, `stop` closes it and its connections."""

    def __init__(
        self,
        registry: CollectorRegistry,
        readiness: Readiness,
        *,
        host: str,
        port: int,
    ) -> None:
        self._registry = registry
        self._readiness = readiness
        self._host = host
        self._wanted_port = port
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    @property
    def port(self) -> int:
        """The port that the endpoint listens on; known after `start`."""
        assert self._server is not None, "the endpoint has not been started"
        port = self._server.sockets[0].getsockname()[1]
        assert isinstance(port, int)
        return port

    async def start(self) -> None:
        """Binds. Raises PortInUseError or BindError."""
        address = f"{self._host}:{self._wanted_port}"
        try:
            self._server = await asyncio.start_server(
                self._serve, self._host, self._wanted_port, limit=_HEADER_BYTES_MAX
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUseError(address) from None
            raise BindError(address, error.strerror or str(error)) from None

    async def stop(self) -> None:
        """Closes the endpoint; harmless if it was never started."""
        if self._server is None:
            return
        self._server.close()
        for writer in tuple(self._connections):
            writer.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= _CONNECTIONS_MAX:
            writer.close()
            return
        self._connections.add(writer)
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # The connection of a peer that is slow, silent or gone is just closed.
        finally:
            self._connections.discard(writer)
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response(http.HTTPStatus.BAD_REQUEST, b"not HTTP/1\n")
        if words[0] not in (b"GET", b"HEAD"):
            return _response(http.HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n")
        path = words[1].split(b"?", 1)[0]
        return self._page(path, with_body=words[0] == b"GET")

    def _page(self, path: bytes, *, with_body: bool) -> bytes:
        if path == b"/metrics":
            body = generate_latest(self._registry)
            return _response(http.HTTPStatus.OK, body, CONTENT_TYPE_LATEST, with_body=with_body)
        if path == b"/healthz":
            return _response(http.HTTPStatus.OK, b"ok\n", with_body=with_body)
        if path == b"/readyz":
            failing = [name for name, holds in self._readiness.results().items() if not holds]
            if failing:
                text = f"not ready: {', '.join(failing)}\n".encode()
                return _response(http.HTTPStatus.SERVICE_UNAVAILABLE, text, with_body=with_body)
            return _response(http.HTTPStatus.OK, b"ready\n", with_body=with_body)
        return _response(http.HTTPStatus.NOT_FOUND, b"see /metrics, /healthz, /readyz\n")


async def serve_metrics(
    stack: AsyncExitStack,
    settings: MetricsSettings,
    registry: CollectorRegistry,
    readiness: Readiness,
) -> None:
    """Starts the endpoint if the settings have a port; `stack` stops it. Raises like `start`."""
    if settings.port is None:
        return
    metrics = MetricsServer(registry, readiness, host=settings.host, port=settings.port)
    stack.push_async_callback(metrics.stop)
    await metrics.start()


def _response(
    status: http.HTTPStatus,
    body: bytes,
    content_type: str = "text/plain; charset=utf-8",
    *,
    with_body: bool = True,
) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n"
        f"Content-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    ).encode("ascii")
    return head + body if with_body else head
