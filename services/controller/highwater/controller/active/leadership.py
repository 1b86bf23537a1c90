"""The election of the active controller: who may write, for how long, and under which epoch.

Each candidate puts a key under `election/` that ends with its lease. The candidate with the oldest
key (lowest create revision) leads, and that revision is the controller epoch, which therefore grows
from leader to leader. A leader that cannot renew its lease steps down by its own clock, before the
store can have ended the lease: its deadline counts from before the renewal was sent. Safety does
not depend on this, because every write compares the election key.

A standby does not wait for the lease of a leader whose process has ended. If it was connected to
the leader, and the leader's address now refuses connections, the standby removes the leader's key.
A leader that still lives (something between the two refused) watches its key, and steps down when
the key is removed. Otherwise it would keep its members, and the next leader would fence them.

No candidate stands for election while the store lacks what it held before (`store_past`).

An exclusive store (SQLite, memory) has only one candidate; its key has no lease.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from highwater.controller.active.first_error import first_error
from highwater.controller.image.writer import Fence
from highwater.controller.members.peers import until_gone
from highwater.controller.store import keys
from highwater.controller.store.port import (
    CompactedError,
    CreateRevisionIs,
    Delete,
    Entry,
    LeaseLostError,
    MetadataStore,
    Operation,
    OutcomeUnknownError,
    Put,
    Snapshot,
    StoreUnavailableError,
    StoreWentBackError,
)
from highwater.model.errors import NotControllerError
from highwater.model.time import Clock
from highwater.runtime.logging import Logger

RENEWALS_PER_TTL: Final = 4
MARGIN_MS: Final = 500
"""How much earlier than the store a leader takes its lease to have ended."""

_RETRY_S: Final = 0.5
_REFUSED_RETRY_S: Final = 1.0
_CALL_TIMEOUT_S: Final = 5.0

Serve = Callable[[Fence], Awaitable[None]]
"""Serves a term; ends by cancellation, or with NotControllerError if the store refuses a write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidacy:
    key: str
    lease: int
    create_revision: int
    deadline_ms: int
    """On the monotonic clock; the lease certainly lasts until then."""


class Leadership:
    """One candidate, from `run` to its cancellation. Campaigns again after every loss."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        candidate: str,
        address: str,
        lease_ttl_ms: int,
        clock: Clock,
        log: Logger,
        verify: Callable[[], Awaitable[None]],
        gone: Callable[[str], Coroutine[Any, Any, None]] = until_gone,
    ) -> None:
        """`candidate` names this process's key; standbys give `address` to their callers.

        `verify` raises StoreWentBackError if nobody may lead. `gone` returns when the controller
        at an address is known to have ended.
        """
        self._store = store
        self._candidate = candidate
        self._address = address
        self._ttl_ms = lease_ttl_ms
        self._clock = clock
        self._log = log
        self._verify = verify
        self._gone = gone
        self._deadline_ms: int | None = None
        self.refuses = False
        """True while this candidate does not stand for election because the store went back."""
        self.active_address = ""
        """host:port of the active controller as far as this candidate knows."""

    async def run(self, serve: Serve) -> None:
        """Campaigns, serves when elected, and starts over after a loss; for ever."""
        while True:
            try:
                await self._verify()
                self._may_stand()
                await self._term(serve)
            except StoreWentBackError as error:
                self._refuse(error)
                await asyncio.sleep(_REFUSED_RETRY_S)
            except (StoreUnavailableError, OutcomeUnknownError, LeaseLostError) as error:
                self._log.warning("election_interrupted", error=str(error))
            except CompactedError as error:
                # The watch was too old; the next campaign reads the range afresh.
                self._log.warning("election_history_compacted", error=str(error))
                continue
            await asyncio.sleep(_RETRY_S)

    def holds(self) -> bool:
        """True while this candidate may act as leader by its own clock."""
        return self._deadline_ms is not None and self._clock.monotonic_ms() < self._deadline_ms

    def _refuse(self, error: StoreWentBackError) -> None:
        if not self.refuses:
            self._log.error("refuses_to_lead", error=str(error))
        self.refuses = True

    def _may_stand(self) -> None:
        if self.refuses:
            self._log.warning("leads_again", reason="the store has what was missing")
        self.refuses = False

    async def _term(self, serve: Serve) -> None:
        candidacy = await self._stand()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._campaign_and_serve(candidacy, serve, group))
        except ExceptionGroup as errors:
            error = first_error(errors)
            if not isinstance(error, NotControllerError | LeaseLostError):
                raise error from errors
            self._log.warning("leadership_lost", error=str(error))
        finally:
            self._deadline_ms = None
            await asyncio.shield(self._withdraw(candidacy))

    async def _campaign_and_serve(
        self, candidacy: _Candidacy, serve: Serve, group: asyncio.TaskGroup
    ) -> None:
        renewing = group.create_task(self._keep(candidacy)) if candidacy.lease else None
        await self._wait_for_turn(candidacy)
        self._log.info("elected", controller_epoch=candidacy.create_revision)
        self.active_address = self._address
        losing = group.create_task(self._until_removed(candidacy)) if candidacy.lease else None
        try:
            await serve(Fence(key=candidacy.key, controller_epoch=candidacy.create_revision))
        finally:
            self.active_address = ""  # Or members would not leave a controller that names itself.
        for task in (renewing, losing):
            if task is not None:
                task.cancel()

    async def _stand(self) -> _Candidacy:
        """Puts the key, after removing former keys of this candidate: it was killed, or lost."""
        stale = (await self._store.range(keys.ELECTION)).entries
        former: list[Operation] = [Delete(key=e.key) for e in stale if self._was_ours(e.key)]
        if former:
            await self._store.txn((), former)
        sent_ms = self._clock.monotonic_ms()
        lease = 0 if self._store.exclusive else await self._store.grant(self._ttl_ms)
        key = keys.ELECTION + (f"{self._candidate}-{lease:x}" if lease else self._candidate)
        deadline_ms = sent_ms + (self._ttl_ms - MARGIN_MS if lease else _FOR_EVER_MS)
        value = keys.encode({"address": self._address})
        result = await self._store.txn(
            (CreateRevisionIs(key=key, revision=0),), (Put(key=key, value=value, lease=lease),)
        )
        if not result.succeeded:
            raise LeaseLostError(f"key {key} exists already")
        self._deadline_ms = deadline_ms
        return _Candidacy(
            key=key, lease=lease, create_revision=result.revision, deadline_ms=deadline_ms
        )

    def _was_ours(self, key: str) -> bool:
        """True for this candidate's keys: names are unique, and an exclusive store has only one."""
        exclusive = self._store.exclusive
        return exclusive or candidate_of(key, exclusive=exclusive) == self._candidate

    async def _wait_for_turn(self, candidacy: _Candidacy) -> None:
        """Returns when this candidate's key is the oldest one left."""
        while True:
            snapshot = await self._store.range(keys.ELECTION)
            if all(entry.key != candidacy.key for entry in snapshot.entries):
                raise LeaseLostError("the election key is gone")
            leader = min(snapshot.entries, key=lambda entry: entry.create_revision)
            if leader.key == candidacy.key:
                return
            self._note_leader(leader)
            await self._until_left(leader, snapshot)

    async def _until_left(self, leader: Entry, snapshot: Snapshot) -> None:
        """Returns when a candidate's key is gone; removes the leader's key if its process ended."""
        async with asyncio.TaskGroup() as group:
            removal = group.create_task(self._until_fewer(snapshot))
            end = group.create_task(self._gone(address_of(leader)))
            await asyncio.wait((removal, end), return_when=asyncio.FIRST_COMPLETED)
            ended = end.done() and not removal.done()
            removal.cancel()
            end.cancel()
        if ended:
            same = CreateRevisionIs(key=leader.key, revision=leader.create_revision)
            await self._store.txn((same,), (Delete(key=leader.key),))
            self._log.warning("leader_ended", active=address_of(leader))

    async def _until_fewer(self, snapshot: Snapshot) -> None:
        """Returns when one of these candidates' keys is gone, even if the event was compacted."""
        present = {(entry.key, entry.create_revision) for entry in snapshot.entries}
        revision = snapshot.revision
        while True:
            try:
                await self._removal(keys.ELECTION, revision + 1)
                return
            except CompactedError:
                self._log.info("election_history_compacted", revision=revision)
            try:
                again = await self._store.range(keys.ELECTION)
            except StoreUnavailableError:
                await asyncio.sleep(_RETRY_S)  # `_until_left` also watches the leader's process.
                continue
            if not present <= {(entry.key, entry.create_revision) for entry in again.entries}:
                return
            revision = again.revision

    async def _removal(self, prefix: str, from_revision: int) -> None:
        watch = self._store.watch(prefix, from_revision)
        async with contextlib.aclosing(watch):
            async for batch in watch:
                if any(event.value is None for event in batch.events):
                    break

    async def _until_removed(self, candidacy: _Candidacy) -> None:
        """Raises LeaseLostError when the leader's key is gone, even if its lease lasts."""
        while True:
            try:
                snapshot = await self._store.range(candidacy.key)
                if all(entry.key != candidacy.key for entry in snapshot.entries):
                    raise LeaseLostError("the election key was removed")
                await self._removal(candidacy.key, snapshot.revision + 1)
            except (CompactedError, StoreUnavailableError):
                await asyncio.sleep(_RETRY_S)  # Until the store answers, `_keep` watches the lease.

    def _note_leader(self, leader: Entry) -> None:
        address = address_of(leader)
        if address != self.active_address:
            self._log.info("standing_by", active=address)
        self.active_address = address

    async def _keep(self, candidacy: _Candidacy) -> None:
        """Renews the lease; raises LeaseLostError at the latest when its deadline passes."""
        pause_s = self._ttl_ms / RENEWALS_PER_TTL / 1000
        deadline_ms = candidacy.deadline_ms
        while True:
            await asyncio.sleep(min(pause_s, max(0, deadline_ms - self._clock.monotonic_ms())))
            sent_ms = self._clock.monotonic_ms()
            if sent_ms >= deadline_ms:
                raise LeaseLostError("the lease could not be renewed in time")
            try:
                async with asyncio.timeout((deadline_ms - sent_ms) / 1000):
                    ttl_ms = await self._store.keep_alive(candidacy.lease)
            except (TimeoutError, StoreUnavailableError) as error:
                self._log.warning("lease_not_renewed", error=str(error))
                await asyncio.sleep(min(pause_s, 0.2))
                continue
            deadline_ms = max(deadline_ms, sent_ms + ttl_ms - MARGIN_MS)
            self._deadline_ms = deadline_ms

    async def _withdraw(self, candidacy: _Candidacy) -> None:
        """Lets the next candidate lead at once, if the store can be reached."""
        if self.active_address == self._address:
            self.active_address = ""
        try:
            async with asyncio.timeout(_CALL_TIMEOUT_S):
                if candidacy.lease:
                    await self._store.revoke(candidacy.lease)
                else:
                    await self._store.txn((), (Delete(key=candidacy.key),))
        except (TimeoutError, StoreUnavailableError, OutcomeUnknownError) as error:
            self._log.info("lease_left_to_expire", error=str(error))


def candidate_of(key: str, *, exclusive: bool) -> str:
    """Whose election key it is. The keys of an exclusive store do not end with a lease."""
    name = key.removeprefix(keys.ELECTION)
    return name if exclusive else name.rpartition("-")[0]


def address_of(candidate: Entry) -> str:
    """What its candidate gives as its address."""
    address = keys.decode(candidate.key, candidate.value)["address"]
    assert isinstance(address, str)
    return address


_FOR_EVER_MS: Final = 1 << 60
"""A deadline that never comes: an exclusive store has no other candidate."""
