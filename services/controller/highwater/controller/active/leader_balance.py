"""Brings leadership back to preferred leaders from time to time (auto.leader.rebalance.enable).

A node that died and came back leads nothing. Without this, the other nodes would keep all its
former partitions. Source: Kafka's `ReplicationControlManager.maybeBalancePartitionLeaders`.
"""

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Final

from highwater.controller.active.hand_overs import HandOvers
from highwater.controller.core.balance_leaders import balance, steady, unbalanced
from highwater.controller.core.hand_over import leader_moves
from highwater.controller.core.offline_replicas import OfflineByNode
from highwater.controller.core.partition_index import PartitionKey
from highwater.controller.image.writer import MetadataWriter
from highwater.controller.store.port import StoreUnavailableError
from highwater.model.errors import LimitExceededError
from highwater.runtime.logging import Logger

STEADY_MS: Final = 5_000
"""A preferred leader must have been able to lead for this long: two changes of leader are too much
for a node that comes and goes, or has just caught up."""

BATCH_PARTITIONS: Final = 50
"""Leaders moved at once: few enough not to disturb clients and nodes."""

BATCH_PAUSE_S: Final = 0.1

ELECTIONS_MAX: Final = 1_000
"""In one round (Kafka's MAX_ELECTIONS_PER_IMBALANCE); the rest waits for the next one."""


class LeaderBalance:
    """The periodic task of one term of office."""

    def __init__(
        self,
        writer: MetadataWriter,
        offline: Callable[[], OfflineByNode],
        hand_overs: HandOvers,
        *,
        interval_ms: int,
        log: Logger,
        steady_ms: int = STEADY_MS,
    ) -> None:
        """`interval_ms` between rounds, 0 for never; shorter ones also shorten `steady_ms`."""
        self._writer = writer
        self._offline = offline
        self._hand_overs = hand_overs
        self._interval_s = interval_ms / 1000
        self._steady_s = min(steady_ms, interval_ms) / 1000
        self._log = log

    async def run(self) -> None:
        """Runs rounds for ever; raises NotActiveError once the term is over."""
        while self._interval_s > 0:
            await asyncio.sleep(self._interval_s)
            try:
                await self.round()
            except (StoreUnavailableError, LimitExceededError) as error:
                self._log.warning("cannot_balance_leaders", error=str(error))

    async def round(self) -> int:
        """Looks twice, `steady_ms` apart, and moves leaders; the number of leaders moved.

        Raises StoreUnavailableError, LimitExceededError, NotActiveError.
        """
        before = unbalanced(self._writer.image, self._writer.index, self._offline())
        if not before:
            return 0
        await asyncio.sleep(self._steady_s)
        now = unbalanced(self._writer.image, self._writer.index, self._offline())
        chosen = iter(steady(before, now)[:ELECTIONS_MAX])
        moved = 0
        while batch := frozenset(islice(chosen, BATCH_PARTITIONS)):
            if moved:
                await asyncio.sleep(BATCH_PAUSE_S)
            moved += await self._move(batch)
        if moved:
            self._log.info("leaders_balanced", elections=moved, unbalanced=len(now))
        return moved

    async def _move(self, batch: frozenset[PartitionKey]) -> int:
        image, moved = self._writer.image, 0

        async def elect(keys: frozenset[PartitionKey]) -> None:
            nonlocal moved
            elections, _ = await self._writer.commit(
                lambda image: balance(image, keys, self._offline())
            )
            moved += elections

        moves = leader_moves(image, balance(image, batch, self._offline()).delta)
        await self._hand_overs.carry_out(moves, elect)
        return moved
