"""Controllers whose answers a test chooses."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from highwater.metadata.endpoints import ControllerEndpoints, ControllerStub, MetadataStub
from highwater.metadata.status import ACTIVE_KEY, NOT_CONTROLLER, REASON_KEY, InProcessRpcError

ANSWER_S = 0.001
"""Until a stream begins, or ends with an error."""


def unavailable() -> InProcessRpcError:
    return InProcessRpcError(grpc.StatusCode.UNAVAILABLE, "connection reset", ())


def not_controller(active: str = "") -> InProcessRpcError:
    trailing = [(REASON_KEY, NOT_CONTROLLER)]
    if active:
        trailing.append((ACTIVE_KEY, active))
    return InProcessRpcError(grpc.StatusCode.FAILED_PRECONDITION, "standby", tuple(trailing))


class FakeController:
    """One controller. `answer(method, request)` returns (or awaits) the answer, or raises; the items
    of `streams` are sent in order.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.answer: Callable[[str, Any], Any] = lambda _method, _request: None
        self.calls: list[tuple[str, Any]] = []
        self.streams: list[list[Any]] = []
        self.watches: list[Any] = []
        self.accepts = True
        self.closed = False
        self.controller: ControllerStub = self
        self.metadata: MetadataStub = self

    def __getattr__(self, method: str) -> Callable[..., Any]:
        async def call(request: Any, *, timeout: float) -> Any:  # noqa: ASYNC109 - as gRPC's stubs.
            assert timeout > 0
            self.calls.append((method, request))
            answer = self.answer(method, request)
            return await answer if inspect.isawaitable(answer) else answer

        return call

    def WatchCluster(self, request: Any) -> AsyncIterator[Any]:
        self.watches.append(request)
        return self._stream(self.streams.pop(0) if self.streams else [])

    async def _stream(self, items: list[Any]) -> AsyncIterator[Any]:
        await asyncio.sleep(ANSWER_S)
        for item in items:
            if isinstance(item, BaseException):
                raise item
            yield item
        await asyncio.sleep(60)

    async def connect(self) -> None:
        if not self.accepts:
            await asyncio.sleep(60)

    async def close(self) -> None:
        self.closed = True


def fake_cluster(*addresses: str) -> tuple[ControllerEndpoints, dict[str, FakeController]]:
    """Endpoints of fake controllers, and these by address."""
    fakes: dict[str, FakeController] = {}

    def connect(address: str) -> FakeController:
        return fakes.setdefault(address, FakeController(address))

    for address in addresses:
        connect(address)
    return ControllerEndpoints(list(addresses), connect=connect), fakes
