"""What the active controller tells of all controllers, nodes and gateways (DescribeQuorum)."""

from highwater.controller.active.leadership import address_of, candidate_of
from highwater.controller.core.quorum import Controller, Moment, Quorum, describe_quorum
from highwater.controller.image.not_active import NotActiveError
from highwater.controller.image.writer import Fence, MetadataWriter
from highwater.controller.members.members import Members
from highwater.controller.store import keys
from highwater.controller.store.port import MetadataStore
from highwater.model.time import Clock


class QuorumView:
    """A part of the active controller, for one term."""

    def __init__(
        self,
        store: MetadataStore,
        fence: Fence,
        writer: MetadataWriter,
        members: Members,
        clock: Clock,
    ) -> None:
        self._store = store
        self._fence = fence
        self._writer = writer
        self._members = members
        self._clock = clock

    async def describe(self) -> Quorum:
        """Asks the store who stands now; the rest is in memory.

        Raises NotActiveError if this controller does not stand any more, StoreUnavailableError.
        """
        entries = (await self._store.range(keys.ELECTION)).entries
        if all(entry.key != self._fence.key for entry in entries):
            raise NotActiveError
        exclusive = self._store.exclusive
        # A controller that was just started again may have two keys; the newer one counts.
        addresses = {
            candidate_of(entry.key, exclusive=exclusive): address_of(entry)
            for entry in sorted(entries, key=lambda entry: entry.create_revision)
        }
        return describe_quorum(
            [Controller(name=name, address=address) for name, address in addresses.items()],
            self._members.nodes.sessions,
            self._members.gateways.sessions,
            leader=candidate_of(self._fence.key, exclusive=exclusive),
            controller_epoch=self._fence.controller_epoch,
            revision=self._writer.image.revision,
            now=Moment(
                monotonic_ms=self._clock.monotonic_ms(),
                wall_ms=self._clock.wall_ms(),
            ),
        )
