"""The port to the metadata store: transactions, ranges, watches and leases.

The store keeps byte values under string keys and counts one revision per successful transaction
that changed something, as etcd does. Keys are relative: a driver adds its own prefix, so that
several clusters can share one etcd. Every wait inside a driver has a limit; when it passes, the
caller gets one of the errors below.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from highwater.model.errors import HighwaterError, RetriableError

OPERATIONS_MAX = 3_600
"""Operations in one transaction: the death of a node of 10 000 partitions needs a few transactions.
etcd allows 128, and as many again inside each; its driver nests them."""

TXN_BYTES_MAX = 1_000_000
"""Keys and values in one transaction; below etcd's limit of 1.5 MiB for a whole request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRevisionIs:
    """Holds if the key was created at that revision; 0: the key does not exist."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModRevisionIs:
    """Holds if the key was last changed at that revision; 0: the key does not exist."""

    key: str
    revision: int


Compare = CreateRevisionIs | ModRevisionIs


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Sets a key; with a lease (not 0) the key ends when the lease does."""

    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Removes a key if it is there."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePrefix:
    """Removes every key that starts with the prefix."""

    prefix: str


Operation = Put | Delete | DeletePrefix


def chunks(operations: Sequence[Operation], *, spare: int = 0) -> Iterator[Sequence[Operation]]:
    """The operations in order, split into transactions within OPERATIONS_MAX and TXN_BYTES_MAX.

    Each has room for `spare` more small ones. An operation that is too large by itself gets its own
    transaction.
    """
    operations_max = OPERATIONS_MAX - spare
    start = size = 0
    for index, operation in enumerate(operations):
        added = _size(operation)
        if index > start and (size + added > TXN_BYTES_MAX or index - start == operations_max):
            yield operations[start:index]
            start, size = index, 0
        size += added
    if start < len(operations):
        yield operations[start:]


def _size(operation: Operation) -> int:
    if isinstance(operation, Put):
        return len(operation.key) + len(operation.value)
    return len(operation.key if isinstance(operation, Delete) else operation.prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnResult:
    """Whether all compares held, and the store's revision after the transaction."""

    succeeded: bool
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One key as it stood at a revision."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All keys under a prefix at one revision, in key order."""

    revision: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """One key was set (value) or removed (None)."""

    key: str
    value: bytes | None
    mod_revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchBatch:
    """Events in the order of their revisions; never a part of a revision.

    `revision` is the last event's: to resume, watch from `revision + 1`.
    """

    revision: int
    events: tuple[WatchEvent, ...]


class StoreUnavailableError(RetriableError):
    """The store does not answer; the call had no effect."""

    reason = "STORE_UNAVAILABLE"


class OutcomeUnknownError(HighwaterError):
    """A transaction was sent, and its outcome is unknown; it may also happen later."""

    reason = "STORE_OUTCOME_UNKNOWN"


class StoreBrokenError(HighwaterError):
    """This process cannot use the store any more: it has to read the contents again."""

    reason = "STORE_BROKEN"


class StoreWentBackError(HighwaterError):
    """The store lacks earlier contents: an older state of it was restored.

    Nothing may act on its contents: epochs would be given out a second time. The operator restores
    the right contents, or accepts the loss (`accept_store_loss`).
    """

    reason = "STORE_WENT_BACK"


class CompactedError(HighwaterError):
    """The history that a watch asked for is gone; read the range again and watch from there."""

    reason = "STORE_COMPACTED"

    def __init__(self, compact_revision: int) -> None:
        """Keep `compact_revision`: no watch can begin before it."""
        super().__init__(f"revisions up to {compact_revision} are compacted")
        self.compact_revision = compact_revision


class LeaseLostError(HighwaterError):
    """The lease and its keys do not exist any more."""

    fenced = True
    reason = "LEASE_LOST"


class MetadataStore(Protocol):
    """The operations that the controller needs. One event loop uses an instance."""

    exclusive: bool
    """True if no other process can use the store while this one has it open."""

    async def start(self) -> None:
        """Opens the store. Raises UsageError if the operator must change something."""
        ...

    async def close(self) -> None:
        """Ends all watches and releases everything; harmless if never started."""
        ...

    async def txn(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> TxnResult:
        """Carries out all operations if all compares hold; durable before it returns.

        At most OPERATIONS_MAX operations and TXN_BYTES_MAX bytes. Raises StoreUnavailableError
        (nothing happened), OutcomeUnknownError, or StoreWentBackError.
        """
        ...

    async def range(self, prefix: str) -> Snapshot:
        """Everything under the prefix at one revision, not older than this call.

        Raises StoreUnavailableError, StoreWentBackError.
        """
        ...

    def watch(self, prefix: str, from_revision: int) -> AsyncGenerator[WatchBatch, None]:
        """Events under the prefix, beginning with those of `from_revision`; endless.

        Reconnects by itself and loses nothing. Raises CompactedError; ends after `close`.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Forgets the values that keys had before that revision; harmless if that is done already.

        Keys stay as they are now, with their revisions; watches from before it end with
        CompactedError. Raises StoreUnavailableError.
        """
        ...

    async def grant(self, ttl_ms: int) -> int:
        """Makes a lease that ends `ttl_ms` after its last keep-alive; its id."""
        ...

    async def keep_alive(self, lease: int) -> int:
        """Renews a lease; its time to live in ms.

        Raises LeaseLostError, StoreUnavailableError, StoreWentBackError.
        """
        ...

    async def revoke(self, lease: int) -> None:
        """Ends a lease and removes its keys; harmless if it has ended."""
        ...
