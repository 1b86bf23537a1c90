"""The one way to change the metadata: decide on the image, write to the store, publish.

One task carries out the changes one after the other, so that no decision sees an image that is
about to change. Every transaction compares the controller's election key, so that the store itself
refuses a controller that lost its election without noticing.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from highwater.controller.core.gateways import assign_gateways
from highwater.controller.core.outcome import PENDING_REVISION, Decision, UncleanElection
from highwater.controller.core.partition_index import PartitionIndex, index_of
from highwater.controller.image.not_active import NotActiveError
from highwater.controller.image.watch_hub import WatchHub
from highwater.controller.store import keys
from highwater.controller.store.head import put_head
from highwater.controller.store.image_store import StoredState, making_operations
from highwater.controller.store.port import (
    CreateRevisionIs,
    DeletePrefix,
    MetadataStore,
    Operation,
    OutcomeUnknownError,
    Put,
    StoreWentBackError,
    chunks,
)
from highwater.model.cluster import (
    ClusterDelta,
    ClusterImage,
    freeing_topics,
    partitions_of,
    replaced_topics,
)
from highwater.model.errors import LimitExceededError
from highwater.model.ids import GatewayId, NodeId
from highwater.model.steps import Steps, in_one_step
from highwater.runtime.collector import FreezePolicy
from highwater.runtime.slices import Slices

JOBS_MAX: Final = 10_000
"""Changes that may wait; a controller this far behind must refuse more."""

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The controller's claim to be active: its election key and that key's create revision."""

    key: str
    controller_epoch: int
    """The key's create revision."""


@dataclass(slots=True)
class _Job:
    decide: Callable[[ClusterImage], Steps[Decision[Any]]]
    done: "asyncio.Future[tuple[Any, int]]"


class MetadataWriter:
    """Owns the image of one term of office. `run` must be running for commits to happen."""

    def __init__(
        self,
        store: MetadataStore,
        fence: Fence,
        state: StoredState,
        *,
        slices: Slices,
        index: PartitionIndex | None = None,
        on_unclean: Callable[[Sequence[UncleanElection]], None] = lambda _: None,
    ) -> None:
        """`index` belongs to the state's image; None to make it here.

        `on_unclean` gets elections that may have lost records, once they are durable.
        """
        self._slices = slices
        self._on_unclean = on_unclean
        self._store = store
        self._fence = fence
        self._compares = (CreateRevisionIs(key=fence.key, revision=fence.controller_epoch),)
        image = replace(state.image, controller_epoch=fence.controller_epoch)
        gateways = assign_gateways(image.nodes.values(), image.gateways)
        self.hub = WatchHub(replace(image, node_gateways=gateways))
        self._index = index_of(image) if index is None else index
        self._freezes = FreezePolicy()
        self._freezes.note_partitions(new=partitions_of(image.topics.values()))
        self.next_producer_id = state.next_producer_id
        self._raise_epochs = state.head.raise_epochs
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue(JOBS_MAX)
        self._closed = False

    @property
    def image(self) -> ClusterImage:
        """The present image."""
        return self.hub.image

    @property
    def index(self) -> PartitionIndex:
        """The index of the present image."""
        return self._index

    async def commit(self, decide: Callable[[ClusterImage], Decision[_R]]) -> tuple[_R, int]:
        """Decides on the image at its turn and makes the decision durable; result and revision.

        Goes on and raises like `commit_in_steps`.
        """
        return await self.commit_in_steps(lambda image: in_one_step(lambda: decide(image)))

    async def commit_in_steps(
        self, decide: Callable[[ClusterImage], Steps[Decision[_R]]]
    ) -> tuple[_R, int]:
        """`commit` of a slow decision: the image stays the same between its steps.

        Completes even if the caller is cancelled. Raises StoreUnavailableError, NotActiveError and
        LimitExceededError (nothing changed), OutcomeUnknownError, and the errors of `decide`.
        """
        if self._closed:
            raise NotActiveError
        job = _Job(decide, asyncio.get_running_loop().create_future())
        try:
            self._jobs.put_nowait(job)
        except asyncio.QueueFull:
            raise LimitExceededError(f"{JOBS_MAX} metadata changes are waiting") from None
        return await job.done

    async def run(self) -> None:
        """Carries out commits until leadership is lost, which raises NotActiveError."""
        while True:
            job = await self._jobs.get()
            try:
                result = await self._carry_out(job.decide)
            except (NotActiveError, StoreWentBackError):
                _fail(job, NotActiveError())
                raise
            except OutcomeUnknownError as error:
                _fail(job, error)
                raise NotActiveError from error
            except asyncio.CancelledError:
                _fail(job, OutcomeUnknownError("this controller's term ended meanwhile"))
                raise
            except Exception as error:  # noqa: BLE001 - the caller handles it; other commits go on.
                _fail(job, error)
            else:
                if not job.done.done():
                    job.done.set_result(result)

    def close(self) -> None:
        """Refuses further commits and ends all watches; after `run` has ended."""
        self._closed = True
        while not self._jobs.empty():
            _fail(self._jobs.get_nowait(), NotActiveError())
        self.hub.close()

    async def write_aside(self, changes: Sequence[Operation]) -> None:
        """Writes the first changes of a term (the cluster's id, left-overs), before `run`."""
        await self._txns(list(changes))

    async def check_fence(self) -> None:
        """Raises NotActiveError if another controller leads; StoreUnavailableError."""
        result = await self._store.txn(self._compares, ())
        if not result.succeeded:
            raise NotActiveError

    async def _carry_out(
        self, decide: Callable[[ClusterImage], Steps[Decision[_R]]]
    ) -> tuple[_R, int]:
        decision = await self._slices.run(decide(self.image))
        changes: list[Operation] = []
        if decision.next_producer_id is not None:
            value = keys.encode({"next": decision.next_producer_id})
            changes.append(Put(key=keys.PRODUCER_IDS, value=value))
        if decision.delta is not None:
            changes += await self._slices.run(making_operations(self.image, decision.delta))
        if not changes:
            return decision.result, self.image.revision
        first, last = await self._txns(changes)
        if decision.next_producer_id is not None:
            self.next_producer_id = decision.next_producer_id
        if decision.delta is not None:
            # Registrations are in the first transaction, whose revision is their epoch.
            await self._publish(decision.delta, registered=first, revision=last)
        if decision.unclean:
            self._on_unclean(decision.unclean)
        return decision.result, last

    async def _txns(self, changes: list[Operation]) -> tuple[int, int]:
        """Writes in chunks, in order; the first and the last revision."""
        first = last = written = 0
        for chunk in chunks(changes, spare=1):
            written += len(chunk)
            # Until the last chunk is written, epochs still have to grow.
            pending = self._raise_epochs if written < len(changes) else 0
            head = put_head(controller_epoch=self._fence.controller_epoch, raise_epochs=pending)
            try:
                result = await self._store.txn(self._compares, (*chunk, head))
            except StoreWentBackError:
                raise
            except Exception as error:
                if not first:
                    raise
                # The store holds a part of the change: the image has to be loaded again.
                raise OutcomeUnknownError("a part of the change is written") from error
            if not result.succeeded:
                if first:
                    raise OutcomeUnknownError("another controller leads; a part is written")
                raise NotActiveError
            first = first or result.revision
            last = result.revision
        return first, last

    async def _publish(self, delta: ClusterDelta, *, registered: int, revision: int) -> None:
        nodes = tuple(
            replace(node, node_epoch=registered) if node.node_epoch == PENDING_REVISION else node
            for node in delta.nodes
        )
        final = replace(
            delta,
            revision=revision,
            controller_epoch=self._fence.controller_epoch,
            nodes=nodes,
        )
        replaced = replaced_topics(self.image, final)
        removed = partitions_of(t for t in replaced if t.topic_id in final.removed_topics)
        index = await self._slices.run(self._index.after(self.image, final))
        image = await self._slices.run(self.image.applying(final))
        if final.nodes or final.removed_nodes or final.gateways or final.removed_gateways:
            mapping: dict[NodeId, GatewayId] = assign_gateways(image.nodes.values(), image.gateways)
            if mapping != image.node_gateways:
                final = replace(final, node_gateways=mapping)
                image = replace(image, node_gateways=mapping)
        self._index = index
        self.hub.publish(image, final)
        self._freezes.note_partitions(new=final.partition_count, removed=removed)
        await self._slices.run(freeing_topics(replaced))


def left_overs(state: StoredState) -> list[Operation]:
    """Removes partitions whose topics were never finished, or are gone."""
    return [DeletePrefix(prefix=keys.partitions(topic_id)) for topic_id in state.orphans]


def _fail(job: _Job, error: BaseException) -> None:
    if not job.done.done():
        job.done.set_exception(error)
