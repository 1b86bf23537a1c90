"""The leaders' timer: followers that lag for replica.lag.time.max.ms leave the ISR.

It also removes appends that waited for followers until their deadline, late by at most half of
that time. Their gateways have answered them by then, so this only frees memory.

Twice in that time each leader with followers is checked, as by Kafka's `isr-expiration`. A round is
spread over its period, so that thousands of partitions do not stop the loop.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from highwater.model.time import Clock
from highwater.partition.core.replica_events import LagChecked
from highwater.partition.data_plane.replica import PartitionReplica

TICKS_MAX: Final = 100
"""Parts of a round."""

PART_MIN: Final = 20
"""Partitions that are checked together, even if there are few: well below a millisecond."""


class LagTimer:
    """See the module. `run` is its only task."""

    def __init__(
        self,
        replicas: Callable[[], Iterable[PartitionReplica]],
        *,
        lag_ms_max: int,
        clock: Clock,
        on_bug: Callable[[PartitionReplica, Exception], None],
    ) -> None:
        """`replicas` returns all of the node; `on_bug` gets a replica that raised."""
        self._replicas = replicas
        self._period_s = lag_ms_max / 2 / 1000
        self._clock = clock
        self._on_bug = on_bug

    async def run(self) -> None:
        """Check all leaders again and again until cancelled."""
        while True:
            parts = self.parts()
            for part in parts:
                await asyncio.sleep(self._period_s / len(parts))
                self.check(part)

    def parts(self) -> list[list[PartitionReplica]]:
        """Split the leaders that have followers into the parts of a round; at least one part."""
        leaders = [replica for replica in self._replicas() if replica.core.progress]
        size = max(PART_MIN, -(-len(leaders) // TICKS_MAX))
        return [leaders[first : first + size] for first in range(0, len(leaders) or 1, size)]

    def check(self, part: Iterable[PartitionReplica]) -> None:
        """Check these replicas; for one that no longer leads this does nothing."""
        now = LagChecked(now_ms=self._clock.monotonic_ms())
        for replica in part:
            try:
                replica.handle(now)
                replica.answers.expire(now.now_ms)
            except Exception as error:  # noqa: BLE001 - one partition's bug, not the node's.
                replica.fail()
                self._on_bug(replica, error)
