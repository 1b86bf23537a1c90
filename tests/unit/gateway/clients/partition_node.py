"""A partition node's gRPC edge on loopback, with a real data plane, that stops and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from highwater.hop.coordinator import CoordinatorCall
from highwater.hop.settings import HopTransport
from highwater.hop.transport import HopServer, make_server
from highwater.model.cluster import NodeState
from highwater.model.ids import NodeId
from highwater.partition.data_plane.offsets import OffsetQueries
from highwater.partition.edge.server import add_to
from highwater.partition.edge.stream_drain import StreamDrain
from highwater.partition.node.log_dirs import LogDirRequests
from highwater.partition.node.loggers import LoggerQueries
from highwater.runtime.logging import silent_logger
from tests.support.still_replicas import StillReplicas
from tests.unit.partition.data_plane.node import Node


class Coordinator:
    """Keeps calls until the test answers them."""

    def __init__(self) -> None:
        self.calls: list[CoordinatorCall] = []
        self.cancelled: list[CoordinatorCall] = []

    def submit(self, call: CoordinatorCall) -> None:
        self.calls.append(call)

    def cancel(self, call: CoordinatorCall) -> None:
        self.cancelled.append(call)


class PartitionNode(Node):
    """`start` serves, `kill` ends everything at once, `stop` in order; `start` again uses the
    same port.
    """

    def __init__(self, directory: Path, transport: HopTransport = HopTransport.LOOP) -> None:
        super().__init__(directory)
        self.transport = transport
        self.stream_failures: list[tuple[str, BaseException]] = []
        self.plane._call_later = asyncio.get_running_loop().call_later
        self.coordinator = Coordinator()
        self.port = 0
        self._server: HopServer | None = None
        self.drain = StreamDrain()

    async def start(self) -> None:
        self._server = make_server("127.0.0.1", self.port, self.transport, self._stream_failed)
        queries = OffsetQueries(self.plane, self._log_failed)
        log_dirs = LogDirRequests(
            [self.directory],
            replicas=lambda _: self.plane.replicas.values(),
            is_online=lambda _: True,
            find=lambda _: None,
            prefer=lambda *_: None,
            moves=StillReplicas(),
        )
        self.drain = StreamDrain()
        add_to(
            self._server.methods,
            plane=self.plane,
            queries=queries,
            log_dirs=log_dirs,
            loggers=LoggerQueries(silent_logger()),
            coordinator=self.coordinator,
            drain=self.drain,
            on_failure=self._stream_failed,
        )
        await self._server.start()
        self.port = self._server.port

    def _stream_failed(self, path: str, error: BaseException) -> None:
        self.stream_failures.append((path, error))

    async def stop(self, timeout_s: float = 2) -> bool:
        """True if all streams ended by themselves."""
        ended = await self.drain.run(timeout_s)
        await self.kill()
        return ended

    async def kill(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(drain_s=0)

    def state(self, incarnation: str = "none", *, readable: bool = False) -> NodeState:
        return NodeState(
            node_id=NodeId(1),
            node_epoch=1,
            address=f"127.0.0.1:{self.port}",
            rack="",
            incarnation=incarnation,
            log_dirs=(str(self.directory),) if readable else (),
            fenced=False,
        )


async def until(condition: Callable[[], object], timeout_s: float = 10) -> None:
    """Waits until the condition holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)
