"""Hands out producer ids one by one, from blocks that the controller allocates (KIP-730)."""

import asyncio
from typing import Final, Protocol

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.model.ids import NO_NODE, ProducerId

ALLOCATION_TIMEOUT_S: Final = 5.0
ROUNDS_MAX: Final = 8
"""Blocks that other callers may use up before a caller gets its id."""


class Allocator(Protocol):
    """The call of the controller's client that is needed here."""

    async def allocate_producer_ids(
        self, request: pb.AllocateProducerIdsRequest, *, timeout_s: float
    ) -> pb.AllocateProducerIdsResponse:
        """Allocates a block of ids to this gateway alone."""
        ...


class ProducerIds:
    """The rest of the current block. Ids that are left when the gateway stops are never used."""

    __slots__ = ("_end", "_next", "_under_way")

    def __init__(self) -> None:
        self._next = 0
        self._end = 0
        self._under_way: asyncio.Future[Exception | None] | None = None

    async def take(self, allocator: Allocator) -> ProducerId | None:
        """Returns a new id; None if the controller refuses or others used up all blocks.

        The first caller that finds the block empty asks for the next one, and all others wait for
        the same answer. Raises what the controller's client raises.
        """
        for _ in range(ROUNDS_MAX):
            if self._next < self._end:
                self._next += 1
                return ProducerId(self._next - 1)
            if self._under_way is not None:
                error = await asyncio.shield(self._under_way)
                if error is not None:
                    raise error
            elif not await self._allocate(allocator):
                return None
        return None

    async def _allocate(self, allocator: Allocator) -> bool:
        outcome = self._under_way = asyncio.get_running_loop().create_future()
        failure: Exception | None = None
        try:
            block = await allocator.allocate_producer_ids(
                pb.AllocateProducerIdsRequest(node_id=NO_NODE), timeout_s=ALLOCATION_TIMEOUT_S
            )
        except Exception as error:
            failure = error
            raise
        finally:
            self._under_way = None
            outcome.set_result(failure)
        if block.error.error_code != 0:
            return False
        self._next, self._end = block.start, block.start + block.length
        return True
