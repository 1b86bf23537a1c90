"""Instances of one term of office: made, changed, deleted and restored, and purged when it is time."""

import asyncio
from typing import Final

from highwater.controller.core.change_instances import (
    create_instance,
    delete_instance,
    restore_instance,
    set_instance,
)
from highwater.controller.core.instance_ports import finding_overlaps, highest_node
from highwater.controller.core.outcome import Refusal
from highwater.controller.core.purge_instances import PurgeStep, due, purge_instances
from highwater.controller.image.writer import MetadataWriter
from highwater.controller.store.port import StoreUnavailableError
from highwater.model.errors import LimitExceededError
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState
from highwater.model.time import Clock
from highwater.runtime.logging import Logger
from highwater.runtime.slices import Slices

CHECK_S: Final = 1.0
"""How often the clock is compared with the times of deleted instances, and gateways with those before."""

SLICE_PAUSE_S: Final = 0.05
"""Between two slices of a purge, for changes that clients wait for."""


class Instances:
    """A part of the active controller, for one term. Raises what `MetadataWriter.commit` raises.

    Times of purges are on the wall clock: they outlast controllers. If it goes back, they come later.
    """

    def __init__(self, writer: MetadataWriter, clock: Clock, slices: Slices, log: Logger) -> None:
        self._writer = writer
        self._clock = clock
        self._slices = slices
        self._log = log
        self._looked_at: tuple[object, ...] = ()
        """What overlaps of ports depend on, as it was when they were looked for."""
        self._overlaps: frozenset[str] = frozenset()

    async def create(self, wanted: InstanceState) -> tuple[Refusal | None, int]:
        """CreateInstance; outcome and revision."""
        return await self._writer.commit(lambda image: create_instance(image, wanted))

    async def set(
        self, wanted: InstanceState, *, previous: InstanceState | None = None
    ) -> tuple[Refusal | None, int]:
        """SetInstance; outcome and revision."""
        return await self._writer.commit(
            lambda image: set_instance(image, wanted, previous=previous)
        )

    async def delete(
        self, instance: InstanceId, *, purge_after_ms: int
    ) -> tuple[InstanceState | Refusal, int]:
        """DeleteInstance; the deleted instance or why not, and the revision."""
        now_ms = self._clock.wall_ms()
        return await self._writer.commit(
            lambda image: delete_instance(
                image, instance, now_ms=now_ms, purge_after_ms=purge_after_ms
            )
        )

    async def restore(self, instance: InstanceId) -> tuple[Refusal | None, int]:
        """RestoreInstance; outcome and revision."""
        return await self._writer.commit(
            lambda image: restore_instance(image, instance, now_ms=self._clock.wall_ms())
        )

    async def run(self) -> None:
        """Purges, and tells of ports that overlap, for ever; raises NotActiveError after the term."""
        while True:
            await asyncio.sleep(CHECK_S)
            await self.tell_overlaps()
            try:
                await self.purge()
            except (StoreUnavailableError, LimitExceededError) as error:
                self._log.warning("cannot_purge_instances", error=str(error))

    async def purge(self) -> int:
        """Removes all instances that are due; how many.

        Raises StoreUnavailableError, LimitExceededError, NotActiveError.
        """
        ended = 0
        while due(self._writer.image, self._clock.wall_ms()) is not None:
            step = await self._slice()
            if step is not None and step.ended:
                ended += 1
                self._log.info("instance_purged", instance=step.instance)
            await asyncio.sleep(SLICE_PAUSE_S)
        return ended

    async def tell_overlaps(self) -> None:
        """Logs overlaps that were not there before; see `finding_overlaps`."""
        image = self._writer.image
        looked_at = (highest_node(image), image.gateways, image.instances)
        if looked_at == self._looked_at:
            return
        found = await self._slices.run(finding_overlaps(image))
        for words in sorted(found - self._overlaps):
            self._log.warning("instance_ports_overlap", reason=words)
        self._looked_at, self._overlaps = looked_at, found

    async def _slice(self) -> PurgeStep | None:
        now_ms = self._clock.wall_ms()
        step, _ = await self._writer.commit(lambda image: purge_instances(image, now_ms))
        return step
