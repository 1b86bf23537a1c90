"""What this process knows of the store's past, across all its terms.

A store that was restored from a backup has an older state. A controller that acted on it would give
out leader epochs and producer ids a second time. So a controller leads only while the store holds
everything that this process and the members have seen in it. The fault test F16 restores a store.

An operator can accept the loss with the setting `accept_store_loss`, set to the highest known
revision. The head then moves past that revision, and all epochs grow by the number of revisions
that may have been lost.
"""

from typing import Final

from highwater.controller.image.not_active import NotActiveError
from highwater.controller.image.writer import Fence
from highwater.controller.store.head import Head, put_head, read_head
from highwater.controller.store.port import (
    CreateRevisionIs,
    MetadataStore,
    ModRevisionIs,
    StoreWentBackError,
)
from highwater.runtime.logging import Logger

RAISE_MAX: Final = 10_000_000
"""No partition changes its leader more often; leader epochs have 31 bits."""

_REPORT_EVERY: Final = 10_000


class StorePast:
    """One for each process, shared by its terms."""

    def __init__(self, store: MetadataStore, *, accepted_revision: int, log: Logger) -> None:
        """Changes up to `accepted_revision` may be lost; 0 for none."""
        self._store = store
        self._accepted = accepted_revision
        self._log = log
        self.known_revision = 0
        """The highest revision of an image that this process knows of."""
        self._distrusted: set[int] = set()
        """Controller epochs of terms that began on a store which had gone back."""

    def note(self, revision: int) -> None:
        """Takes the revision of an image that this process or a member has seen."""
        self.known_revision = max(self.known_revision, revision)

    def distrust(self, controller_epoch: int) -> None:
        """Distrusts all writes of this term: it decided them without what the store lacked."""
        self._distrusted.add(controller_epoch)

    async def verify(self) -> None:
        """Checks before an election that the store holds all that is known.

        Raises StoreWentBackError, StoreUnavailableError.
        """
        self.check(await read_head(self._store))

    def check(self, head: Head) -> None:
        """Checks a head that was read. Raises StoreWentBackError."""
        behind = head.revision < self.known_revision
        wrong = behind or head.controller_epoch in self._distrusted
        if wrong and max(head.revision, self.known_revision) > self._accepted:
            raise self.error(head.revision)

    def error(self, revision: int) -> StoreWentBackError:
        """Says in one line what is wrong with a store at that revision, and what to do."""
        known = max(revision, self.known_revision)
        return StoreWentBackError(
            f"the metadata store was put back to an older state, or lost its end: it is at "
            f"revision {revision} and lacks some of what members know, up to revision "
            f"{self.known_revision}. Restore what it held last, or set accept_store_loss={known} "
            "to give that up"
        )

    async def accept(self, fence: Fence, head: Head) -> None:
        """At the beginning of a term: moves the head past the loss that the operator accepted.

        Raises NotActiveError if the head had to move: members accept only a controller epoch that
        begins after that as newer than the one they know.
        """
        if head.revision > self._accepted:
            return
        lost = self._accepted - head.revision + 1
        self._log.warning("store_loss_accepted", revision=head.revision, lost=lost)
        pending = min(RAISE_MAX, head.raise_epochs + lost)
        change = put_head(controller_epoch=fence.controller_epoch, raise_epochs=pending)
        claim = CreateRevisionIs(key=fence.key, revision=fence.controller_epoch)
        mod_revision = head.mod_revision
        for count in range(lost):
            as_read = ModRevisionIs(key=change.key, revision=mod_revision)
            result = await self._store.txn((claim, as_read), (change,))
            if not result.succeeded:
                break
            mod_revision = result.revision
            if mod_revision > self._accepted:
                break
            if count % _REPORT_EVERY == 0:
                self._log.info("head_moves", revision=mod_revision, goal=self._accepted)
        raise NotActiveError
