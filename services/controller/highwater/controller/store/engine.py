"""The keys and revisions of the memory and SQLite drivers: etcd's semantics in a dictionary.

A transaction is planned first and applied after it is durable, so that a driver can write the
plan to disk in between. The history of events is bounded; older events are compacted.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Final

from highwater.controller.store.port import (
    OPERATIONS_MAX,
    CompactedError,
    Compare,
    CreateRevisionIs,
    Delete,
    Entry,
    Operation,
    Put,
    Snapshot,
    WatchBatch,
    WatchEvent,
)
from highwater.model.steps import Steps, finish

HISTORY_EVENTS_MAX: Final = 20_000
"""Enough for a watcher to catch up with the death of a node of 10 000 partitions, twice."""

_STEP_ENTRIES: Final = 256
"""Entries that one step of a range sorts, or takes in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A transaction that is decided and not yet applied."""

    revision: int
    succeeded: bool
    puts: tuple[tuple[Entry, int], ...] = ()
    """Entries with the lease of each, 0 for none."""
    deleted: tuple[str, ...] = ()
    events: tuple[WatchEvent, ...] = ()
    """The changes that watchers hear of."""


class Engine:
    """Keys, revisions, leases and history. Pure and synchronous; one owner."""

    def __init__(self, *, history_events_max: int = HISTORY_EVENTS_MAX) -> None:
        self.revision = 1
        self._entries: dict[str, Entry] = {}
        self._lease_of: dict[str, int] = {}
        self._leases: set[int] = set()
        self._next_lease = 1
        self._history: deque[WatchBatch] = deque()
        self._history_events = 0
        self._history_events_max = history_events_max
        self._compacted = 1
        """Events of this revision and of older ones are gone."""

    def load(self, revision: int, entries: Iterable[Entry]) -> None:
        """Starts from what a driver has on disk; history before it is compacted."""
        self.revision = revision
        self._entries = {entry.key: entry for entry in entries}
        self._compacted = revision

    def plan(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Plan:
        """Decides a transaction against the present keys and changes nothing."""
        return finish(self.planning(compares, operations))

    def planning(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Steps[Plan]:
        """`plan` in steps, between which nothing may be applied."""
        assert len(operations) <= OPERATIONS_MAX
        if not all(self._holds(compare) for compare in compares):
            return Plan(revision=self.revision, succeeded=False)
        revision = self.revision + 1
        puts: dict[str, tuple[Entry, int]] = {}
        deleted: dict[str, None] = {}
        for operation in operations:
            if isinstance(operation, Put):
                assert operation.lease == 0 or operation.lease in self._leases
                before = self._entries.get(operation.key)
                created = before.create_revision if before else revision
                entry = Entry(
                    key=operation.key,
                    value=operation.value,
                    create_revision=created,
                    mod_revision=revision,
                )
                assert operation.key not in puts, "a key is put twice in one transaction"
                puts[operation.key] = (entry, operation.lease)
                yield
            elif isinstance(operation, Delete):
                if operation.key in self._entries:
                    deleted[operation.key] = None
            else:
                deleted.update((k, None) for k in self._entries if k.startswith(operation.prefix))
        assert not puts.keys() & deleted.keys(), "a key is put and deleted in one transaction"
        if not puts and not deleted:
            revision = self.revision
        events = [WatchEvent(key=key, value=None, mod_revision=revision) for key in deleted]
        for entry, _ in puts.values():
            events.append(WatchEvent(key=entry.key, value=entry.value, mod_revision=revision))
            yield
        return Plan(
            revision=revision,
            succeeded=True,
            puts=tuple(puts.values()),
            deleted=tuple(deleted),
            events=tuple(events),
        )

    def apply(self, plan: Plan) -> WatchBatch | None:
        """Carries out a plan; the events for watchers, or None if nothing changed."""
        return finish(self.applying(plan))

    def applying(self, plan: Plan) -> Steps[WatchBatch | None]:
        """`apply` in steps, between which nothing may be planned or read but the history."""
        if plan.revision == self.revision:
            return None
        assert plan.revision == self.revision + 1
        for key in plan.deleted:
            del self._entries[key]
            self._lease_of.pop(key, None)
        for number, (entry, lease) in enumerate(plan.puts, start=1):
            self._entries[entry.key] = entry
            self._lease_of.pop(entry.key, None)
            if lease:
                self._lease_of[entry.key] = lease
            if number % _STEP_ENTRIES == 0:
                yield
        self.revision = plan.revision
        batch = WatchBatch(revision=plan.revision, events=plan.events)
        self._remember(batch)
        return batch

    def range(self, prefix: str) -> Snapshot:
        """All keys under the prefix, now."""
        return finish(self.ranging(prefix))

    def ranging(self, prefix: str) -> Steps[Snapshot]:
        """`range` in steps, between which nothing may be applied."""
        runs: list[list[Entry]] = [[]]
        for number, (key, entry) in enumerate(self._entries.items(), start=1):
            if key.startswith(prefix):
                runs[-1].append(entry)
            if number % _STEP_ENTRIES == 0:
                runs[-1].sort(key=_key)
                runs.append([])
                yield
        runs[-1].sort(key=_key)
        entries: list[Entry] = []
        for entry in merge(*runs, key=_key):
            entries.append(entry)
            if len(entries) % _STEP_ENTRIES == 0:
                yield
        return Snapshot(revision=self.revision, entries=tuple(entries))

    def since(self, prefix: str, from_revision: int) -> list[WatchBatch]:
        """History under the prefix from that revision on. Raises CompactedError."""
        if from_revision <= self._compacted:
            raise CompactedError(self._compacted)
        batches = (b for b in self._history if b.revision >= from_revision)
        return [kept for b in batches if (kept := under(prefix, b)) is not None]

    def compact(self, revision: int) -> None:
        """Forgets the history up to and including that revision."""
        self._compacted = max(self._compacted, min(revision, self.revision))
        while self._history and self._history[0].revision <= self._compacted:
            self._history_events -= len(self._history.popleft().events)

    def grant(self) -> int:
        """A new lease's id."""
        lease = self._next_lease
        self._next_lease += 1
        self._leases.add(lease)
        return lease

    def has_lease(self, lease: int) -> bool:
        """True until the lease is ended."""
        return lease in self._leases

    def keys_of_lease(self, lease: int) -> tuple[str, ...]:
        """The keys that end with the lease."""
        return tuple(key for key, owner in self._lease_of.items() if owner == lease)

    def end_lease(self, lease: int) -> None:
        """Forgets the lease; the driver deletes its keys by a transaction."""
        self._leases.discard(lease)

    def _holds(self, compare: Compare) -> bool:
        entry = self._entries.get(compare.key)
        if isinstance(compare, CreateRevisionIs):
            return (entry.create_revision if entry else 0) == compare.revision
        return (entry.mod_revision if entry else 0) == compare.revision

    def _remember(self, batch: WatchBatch) -> None:
        self._history.append(batch)
        self._history_events += len(batch.events)
        while self._history_events > self._history_events_max and len(self._history) > 1:
            oldest = self._history.popleft()
            self._history_events -= len(oldest.events)
            self._compacted = oldest.revision


def _key(entry: Entry) -> str:
    return entry.key


def under(prefix: str, batch: WatchBatch) -> WatchBatch | None:
    """The batch with only the events under the prefix, None if there are none."""
    events = tuple(event for event in batch.events if event.key.startswith(prefix))
    if not events:
        return None
    return (
        batch
        if len(events) == len(batch.events)
        else WatchBatch(revision=batch.revision, events=events)
    )
