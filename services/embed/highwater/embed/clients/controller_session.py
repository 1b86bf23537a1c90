"""Calls to the controller for commands: one event loop, one set of connections."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from highwater.embed.clients.kafka_client import parse_address
from highwater.metadata.endpoints import ControllerEndpoints
from highwater.metadata.watch import ClusterWatch
from highwater.model.cluster import ClusterImage
from highwater.model.errors import UnreachableError

_T = TypeVar("_T")


def converse(address: str, work: Callable[[ControllerEndpoints], Awaitable[_T]]) -> _T:
    """Runs `work` and returns its result. Raises UsageError for an invalid address."""
    parse_address(address)

    async def within() -> _T:
        endpoints = ControllerEndpoints([address])
        try:
            return await work(endpoints)
        finally:
            await endpoints.close()

    return asyncio.run(within())


async def read_image(endpoints: ControllerEndpoints, timeout_s: float) -> ClusterImage:
    """Returns the controller's current image. Raises UnreachableError."""
    watch = ClusterWatch(endpoints)
    watch.start()
    try:
        return await watch.wait_for_revision(1, timeout_s)
    except TimeoutError:
        raise UnreachableError(
            f"no answer from the controller on {', '.join(endpoints.addresses)}"
        ) from None
    finally:
        await watch.stop()
