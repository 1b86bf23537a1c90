"""Hands out producer ids one by one, from blocks that the controller allocates (KIP-730)."""

import asyncio
from typing import Final, Protocol

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.model.errors import HighwaterError
from highwater.model.ids import NO_NODE, ProducerId
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

ALLOCATION_TIMEOUT_S: Final = 5.0
ROUNDS_MAX: Final = 8
"""Blocks that other callers may use up before a caller gets its id."""
RETRY_S: Final = 0.1
"""From an allocation that failed to the next one."""


class Allocator(Protocol):
    """The call of the controller's client that is needed here."""

    async def allocate_producer_ids(
        self, request: pb.AllocateProducerIdsRequest, *, timeout_s: float
    ) -> pb.AllocateProducerIdsResponse:
        """Allocates a block of ids to this service alone."""
        ...


async def allocate(allocator: Allocator) -> range:
    """A block that nobody else gets; empty if the controller refuses. Raises what its client raises."""
    block = await allocator.allocate_producer_ids(
        pb.AllocateProducerIdsRequest(node_id=NO_NODE), timeout_s=ALLOCATION_TIMEOUT_S
    )
    refused = block.error.error_code != 0
    return range(0) if refused else range(block.start, block.start + block.length)


class ProducerIds:
    """The rest of the current block. Ids that are left when the service stops are never used."""

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
            block = await allocate(allocator)
        except Exception as error:
            failure = error
            raise
        finally:
            self._under_way = None
            outcome.set_result(failure)
        if not block:
            return False
        self._next, self._end = block.start, block.stop
        return True


class ReadyProducerIds:
    """Ids for callers that cannot wait: the next block is fetched before this one is used up (Kafka:
    RPCProducerIdManager). Lives as long as its owner of tasks, on one loop.
    """

    def __init__(self, allocator: Allocator, tasks: TaskOwner, log: Logger) -> None:
        """Without a block; the first `prepare` or `take` fetches one."""
        self._allocator = allocator
        self._tasks = tasks
        self._log = log
        self._block = range(0)
        self._following = range(0)
        self._fetching = False

    def take(self) -> ProducerId | None:
        """Another id; None while there is none, which is soon over if the controller is there."""
        if not self._block:
            self._block, self._following = self._following, range(0)
        self.prepare()
        if not self._block:
            return None
        taken, self._block = self._block[0], self._block[1:]
        return ProducerId(taken)

    def prepare(self) -> None:
        """Sees to it that there is another block."""
        if not self._following and not self._fetching:
            self._fetching = True
            self._tasks.start(self._fetch(), name="producer-ids")

    async def _fetch(self) -> None:
        """Tries again until there is a block. Each reason of a failure is logged once."""
        logged = ""
        try:
            while not self._following:
                try:
                    self._following = await allocate(self._allocator)
                    why = "refused"
                except HighwaterError as error:
                    why = str(error)
                if self._following:
                    return
                if why != logged:
                    self._log.warning("producer_id_allocation_failed", error=why)
                    logged = why
                await asyncio.sleep(RETRY_S)
        finally:
            # Also after a bug, so that the next caller asks again.
            self._fetching = False
