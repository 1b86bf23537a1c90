"""Moves many leaders from live nodes to other ones, a few at a time, each by a hand-over."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from highwater.controller.active.hand_overs import HandOvers
from highwater.controller.core.hand_over import as_asked, leader_moves
from highwater.controller.core.outcome import Decision
from highwater.controller.core.partition_index import PartitionKey
from highwater.controller.image.writer import MetadataWriter
from highwater.model.cluster import ClusterImage

BATCH_PAUSE_S: Final = 0.1

ELECTIONS_MAX: Final = 1_000
"""In one round (Kafka's MAX_ELECTIONS_PER_IMBALANCE); the rest waits for the next one."""

Decide = Callable[[ClusterImage, frozenset[PartitionKey]], Decision[int]]
"""New leaders for those of the partitions that still need one; their number."""


class LeaderBatches:
    """One term's."""

    def __init__(self, writer: MetadataWriter, hand_overs: HandOvers) -> None:
        self._writer = writer
        self._hand_overs = hand_overs

    async def move(
        self, chosen: Iterable[PartitionKey], decide: Decide, *, at_once: int
    ) -> tuple[int, frozenset[PartitionKey]]:
        """The number of leaders moved, and those that lead on because their successors lag, or cannot
        lead any more.

        So many hand over `at_once`; a batch takes about a heartbeat's interval.
        Raises StoreUnavailableError, LimitExceededError, NotActiveError.
        """
        left = islice(chosen, ELECTIONS_MAX)
        moved = 0
        lagging = frozenset[PartitionKey]()
        while batch := frozenset(islice(left, at_once)):
            if moved:
                await asyncio.sleep(BATCH_PAUSE_S)
            elections, behind = await self._move(batch, decide)
            moved += elections
            lagging |= behind
        return moved, lagging

    async def _move(
        self, batch: frozenset[PartitionKey], decide: Decide
    ) -> tuple[int, frozenset[PartitionKey]]:
        image, moved = self._writer.image, 0
        moves = leader_moves(image, decide(image, batch).delta)

        async def elect(keys: frozenset[PartitionKey]) -> None:
            nonlocal moved
            elections, _ = await self._writer.commit(
                lambda image: as_asked(image, decide(image, keys), moves)
            )
            moved += elections

        lagging = await self._hand_overs.carry_out(moves, elect)
        return moved, lagging
