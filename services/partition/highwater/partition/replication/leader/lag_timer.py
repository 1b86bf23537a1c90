"""The clock of leaders: followers behind for replica.lag.time.max.ms leave the ISR.

So do appends that have waited for followers until their deadline; their gateways have answered
them by then, so this is only to forget them, and half of that time late at most.

Every half of that time each leader with followers is told the time, as Kafka's `isr-expiration`
does. A round is spread over its period, so that thousands of partitions do not stop the loop.
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
"""Partitions that are looked at together, however few there are: well below a millisecond."""


class LagTimer:
    """See the module. `run` is its one task."""

    def __init__(
        self,
        replicas: Callable[[], Iterable[PartitionReplica]],
        *,
        lag_ms_max: int,
        clock: Clock,
        on_bug: Callable[[PartitionReplica, Exception], None],
    ) -> None:
        """`replicas` gives all of the node; `on_bug` hears of those that raise."""
        self._replicas = replicas
        self._period_s = lag_ms_max / 2 / 1000
        self._clock = clock
        self._on_bug = on_bug

    async def run(self) -> None:
        """Goes round until cancelled."""
        while True:
            parts = self.parts()
            for part in parts:
                await asyncio.sleep(self._period_s / len(parts))
                self.check(part)

    def parts(self) -> list[list[PartitionReplica]]:
        """The leaders that have followers, in as many parts as a round has; at least one."""
        leaders = [replica for replica in self._replicas() if replica.core.progress]
        size = max(PART_MIN, -(-len(leaders) // TICKS_MAX))
        return [leaders[first : first + size] for first in range(0, len(leaders) or 1, size)]

    def check(self, part: Iterable[PartitionReplica]) -> None:
        """Tells them the time; whoever does not lead any more is not interested."""
        now = LagChecked(now_ms=self._clock.monotonic_ms())
        for replica in part:
            try:
                replica.handle(now)
                replica.answers.expire(now.now_ms)
            except Exception as error:  # noqa: BLE001 - one partition's bug, not the node's.
                replica.fail()
                self._on_bug(replica, error)
