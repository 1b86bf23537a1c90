"""Takes leaderships from nodes whose disks are nearly full, as long as others have space.

Producers are refused there (the node's `disk_guard`), so every second counts, unlike for the balance of
leaders, which brings them back. What nodes say is not in the store: a new controller hears it again.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from highwater.controller.active.hand_overs import AT_ONCE_MAX, HandOvers
from highwater.controller.active.leader_batches import ELECTIONS_MAX, LeaderBatches
from highwater.controller.core.full_replicas import FullReplicas
from highwater.controller.core.leave_full_disks import finding_crowded, leave_full_disks
from highwater.controller.core.membership import ElectionRules
from highwater.controller.core.offline_replicas import OfflineByNode
from highwater.controller.core.outcome import Decision
from highwater.controller.core.partition_index import PartitionKey
from highwater.controller.image.writer import MetadataWriter
from highwater.controller.store.port import StoreUnavailableError
from highwater.model.cluster import ClusterImage
from highwater.model.errors import LimitExceededError
from highwater.runtime.logging import Logger
from highwater.runtime.slices import Slices

LOOK_S: Final = 1.0
"""As often as nodes look at their disks."""

FUTILE_S: Final = 5.0
"""Until the next look if no leader on a full disk could move, unless nodes say something new: all their
leaders are looked at, which may be many."""

REST_S: Final = 10.0
"""How long a leader is left in peace whose successor lagged: hand-overs wait for each other, and
those of reassignments and of other full disks shall not wait for it every time."""


class FullDisks:
    """The periodic task of one term of office."""

    def __init__(
        self,
        writer: MetadataWriter,
        full: FullReplicas,
        elections: ElectionRules,
        offline: Callable[[], OfflineByNode],
        hand_overs: HandOvers,
        slices: Slices,
        log: Logger,
    ) -> None:
        """`full` is what `members` hear; `elections` know what is avoided."""
        self._writer = writer
        self._full = full
        self._elections = elections
        self._offline = offline
        self._batches = LeaderBatches(writer, hand_overs)
        self._slices = slices
        self._log = log
        self._changes = 0
        self._next_s = 0.0
        """When to look again if nodes say nothing new."""
        self._resting_s: dict[PartitionKey, float] = {}
        """Until when leaders are left in peace, by the loop's clock."""

    async def run(self) -> None:
        """Runs rounds for ever; raises NotActiveError once the term is over."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.round()
            except (StoreUnavailableError, LimitExceededError) as error:
                self._log.warning("cannot_leave_full_disks", error=str(error))

    async def round(self) -> int:
        """Moves leaders that can move; their number.

        Raises StoreUnavailableError, LimitExceededError, NotActiveError.
        """
        now_s = asyncio.get_running_loop().time()
        full = self._full
        full.keep(self._writer.image.nodes.keys())
        if not full.told or (full.changes == self._changes and now_s < self._next_s):
            return 0
        self._changes, self._next_s = full.changes, now_s + FUTILE_S
        self._resting_s = {key: s for key, s in self._resting_s.items() if s > now_s}
        crowded = await self._slices.run(
            finding_crowded(
                self._writer.image,
                self._writer.index,
                full.told,
                self._elections.avoided,
                self._offline(),
                resting=self._resting_s,
                limit=ELECTIONS_MAX,
            )
        )
        if not crowded:
            return 0
        self._next_s = now_s
        # All together: nobody can write to them anyway.
        moved, lagging = await self._batches.move(
            sorted(crowded), self._decide, at_once=AT_ONCE_MAX
        )
        until_s = asyncio.get_running_loop().time() + REST_S
        self._resting_s.update((key, until_s) for key in lagging)
        self._log.info("leaders_left_full_disks", elections=moved, lagging=len(lagging))
        return moved

    def _decide(self, image: ClusterImage, keys: frozenset[PartitionKey]) -> Decision[int]:
        return leave_full_disks(
            image, sorted(keys), self._full.told, self._elections.avoided, self._offline()
        )
