"""Brings leadership back to preferred leaders from time to time (auto.leader.rebalance.enable).

A node that died and came back leads nothing. Without this, the other nodes would keep all its
former partitions. Source: Kafka's `ReplicationControlManager.maybeBalancePartitionLeaders`.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from highwater.controller.active.hand_overs import HandOvers
from highwater.controller.active.leader_batches import LeaderBatches
from highwater.controller.core.balance_leaders import balance, steady, unbalanced
from highwater.controller.core.full_replicas import Avoided, nobody
from highwater.controller.core.offline_replicas import OfflineByNode
from highwater.controller.core.outcome import Decision
from highwater.controller.core.partition_index import PartitionKey
from highwater.controller.image.writer import MetadataWriter
from highwater.controller.store.port import StoreUnavailableError
from highwater.model.cluster import ClusterImage, PartitionState
from highwater.model.errors import LimitExceededError
from highwater.runtime.logging import Logger

STEADY_MS: Final = 5_000
"""A preferred leader must have been able to lead for this long: two changes of leader are too much
for a node that comes and goes, or has just caught up."""

BATCH_PARTITIONS: Final = 50
"""Leaders moved at once: few enough not to disturb clients and nodes."""


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
        avoided: Avoided = nobody,
    ) -> None:
        """`interval_ms` between rounds, 0 for never; shorter ones also shorten `steady_ms`.

        `avoided` nodes get no leaderships back.
        """
        self._writer = writer
        self._offline = offline
        self._batches = LeaderBatches(writer, hand_overs)
        self._avoided = avoided
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
        before = self._unbalanced()
        if not before:
            return 0
        await asyncio.sleep(self._steady_s)
        now = self._unbalanced()
        moved, _ = await self._batches.move(
            steady(before, now), self._decide, at_once=BATCH_PARTITIONS
        )
        if moved:
            self._log.info("leaders_balanced", elections=moved, unbalanced=len(now))
        return moved

    def _unbalanced(self) -> dict[PartitionKey, PartitionState]:
        return unbalanced(self._writer.image, self._writer.index, self._offline(), self._avoided)

    def _decide(self, image: ClusterImage, keys: frozenset[PartitionKey]) -> Decision[int]:
        return balance(image, keys, self._offline(), self._avoided)
