"""The data plane of one node: all its replicas, and the fetches that wait for them.

Single owner: everything here runs on the node's event loop.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Protocol

from highwater.hop.append import AppendGroup, Failure
from highwater.hop.fetch import (
    READ_COMMITTED,
    FetchedPartition,
    FetchPartition,
    FetchSet,
    FetchWork,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import NO_NODE, InstanceId, TopicId
from highwater.model.time import CallLater
from highwater.model.transactions import MarkerTarget, TransactionVerifier
from highwater.partition.core.preferred_replica import preferred_replica
from highwater.partition.core.producers import ProducerStates
from highwater.partition.data_plane.fetch_sets import ServedSet
from highwater.partition.data_plane.full_directory import FullDirectory
from highwater.partition.data_plane.held_appends import HeldAppends, ProduceMeter
from highwater.partition.data_plane.node_group import MarkerGroup, NodeGroup
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.data_plane.replica_role import unknown
from highwater.partition.data_plane.verified_appends import AppendVerification, VerifiedAppends
from highwater.partition.data_plane.waiters import FetchWait
from highwater.partition.storage.errors import (
    CorruptIndexError,
    CorruptLogError,
    DamagedRecordsError,
    LogDirFailure,
    StorageError,
)

COPIED_BYTES_MAX: Final = 1 << 20
"""With more records than that, the rest of a fetch's stay in files: they would only use memory."""


class Meter(ProduceMeter, Protocol):
    """One limited instance's quota at this node; times are throttle times in ms."""

    def fetch_hold_ms(self) -> int:
        """More than 0 while the client may not fetch."""
        ...

    def fetch_bytes_max(self, asked: int) -> int:
        """How many of the `asked` bytes may be sent."""
        ...

    def consumed(self, nbytes: int) -> int:
        """Charges bytes that are sent."""
        ...


class DataPlane:
    """Appends and fetches by (topic id, partition); see the module."""

    def __init__(
        self,
        call_later: CallLater,
        on_bug: Callable[[PartitionReplica, Exception], None],
        meters: Mapping[InstanceId, Meter] | None = None,
        on_damage: Callable[[PartitionReplica, StorageError], bool] = lambda *_: False,
        *,
        may_heal_soon: Callable[[PartitionReplica], bool] = lambda _: False,
        is_whole: Callable[[PartitionReplica], bool] = lambda _: True,
        leader_elsewhere: Callable[[TopicId, int], tuple[int, int]] = lambda *_: (-1, -1),
        rack_aware: bool = False,
    ) -> None:
        """`on_bug` gets unexpected exceptions; the partition then goes offline.

        `on_damage` gets unreadable logs; it returns True if it has handled the damage, and the
        partition's state is right. `may_heal_soon` says whether damaged records of a replica may
        soon be readable, `is_whole` whether a replica's log has no known damage.
        `leader_elsewhere` gives (leader, leader epoch) of a partition as far as the node knows.
        `meters` is a live table of the instances that have limits. With `rack_aware`, leaders send
        clients to followers in their rack (KIP-392).
        """
        self.replicas: dict[tuple[TopicId, int], PartitionReplica] = {}
        self.marker_targets: dict[TopicId, MarkerTarget] = {}
        """Who writes the markers of transactions in topics whose records are a coordinator's."""
        self._verification: AppendVerification | None = None
        self._call_later = call_later
        self._on_bug = on_bug
        self._on_damage = on_damage
        self._may_heal_soon = may_heal_soon
        self.is_whole = is_whole
        self._leader_elsewhere = leader_elsewhere
        self._rack_aware = rack_aware
        self._meters: Mapping[InstanceId, Meter] = {} if meters is None else meters
        self.held: Final = HeldAppends(
            call_later,
            lambda group: self._append_passed((group,)),
            self._refuse,
            self._known_producers,
        )
        self.full_directories: dict[int, FullDirectory] = {}
        """By the directory's index; empty unless a disk is nearly full."""
        self.waiting_fetches = 0
        self.appended_bytes = 0
        self.fetched_bytes = 0

    def append(self, groups: Iterable[AppendGroup]) -> None:
        """Appends every group; each is completed exactly once, now or when it is committed.

        Those of limited instances wait if their meters say so (`HeldAppends`).
        """
        looks = self._meters or self.held.refused
        self._append_passed(self._unmetered(groups) if looks else groups)

    def _unmetered(self, groups: Iterable[AppendGroup]) -> Iterator[AppendGroup]:
        for group in groups:
            meter = self._meters.get(group.instance)
            if meter is None:
                if not self.held.refused or self.held.spares(group):
                    yield group
                continue
            key = (group.topic_id, group.partition)
            replica = self.replicas.get(key)
            if replica is None or not replica.may_take(group.leader_epoch):
                yield group  # It is refused, and costs nobody's share.
                continue
            if replica.end_held is None:
                replica.end_held = partial(self.held.leader_gone, group.instance, key)
            self.held.append(meter, group)

    def _append_passed(self, groups: Iterable[AppendGroup]) -> None:
        """Appends groups that no meter holds back."""
        replicas = self.replicas
        for group in groups:
            self.appended_bytes += group.nbytes
            replica = replicas.get((group.topic_id, group.partition))
            if replica is None:
                group.fail(self._no_replica(group))
            elif self.full_directories and (refusal := self._no_space(replica, group)) is not None:
                replica.refuse_to_store(group, refusal)
            else:
                try:
                    if group.transaction is None or not self._waits(replica, group):
                        replica.append(group)
                except Exception as error:  # noqa: BLE001 - one partition's bug, not the node's.
                    self._append_broke(replica, group, error)

    def _known_producers(self, group: AppendGroup) -> ProducerStates | None:
        replica = self.replicas.get((group.topic_id, group.partition))
        return None if replica is None else replica.log.producers.states

    def _refuse(self, group: AppendGroup, failure: Failure) -> None:
        """Refuses a group that would not be appended even if it came to the right node."""
        replica = self.replicas.get((group.topic_id, group.partition))
        if replica is None:
            group.fail(self._no_replica(group))
        else:
            replica.refuse_to_store(group, failure)

    def append_built(self, group: NodeGroup) -> None:
        """Appends one batch that this node has just built: it is not checked again, and no meter holds
        it back.
        """
        replica = self.replicas.get((group.topic_id, group.partition))
        if replica is None or self.full_directories:
            self._append_passed((group,))
            return
        self.appended_bytes += group.nbytes
        try:
            replica.append_built(group)
        except Exception as error:  # noqa: BLE001 - as in `append`.
            self._append_broke(replica, group, error)

    def _no_space(self, replica: PartitionReplica, group: AppendGroup) -> Failure | None:
        directory = self.full_directories.get(replica.log_dir)
        return None if directory is None else directory.refuses(group)

    def append_late(self, replica: PartitionReplica, group: AppendGroup) -> None:
        """Appends a group that `append` or `append_marker` was given before."""
        try:
            if isinstance(group, MarkerGroup):
                replica.append_marker(group)
            else:
                replica.append(group)
        except Exception as error:  # noqa: BLE001 - as in `append`.
            self._append_broke(replica, group, error)

    def _append_broke(
        self, replica: PartitionReplica, group: AppendGroup, error: Exception
    ) -> None:
        replica.fail()
        self._on_bug(replica, error)
        if not group.completed:
            group.fail(unknown(replica.storage_error, str(error)))

    def _waits(self, replica: PartitionReplica, group: AppendGroup) -> bool:
        verified = replica.verified
        if verified is None:
            if self._verification is None:
                return False
            append = partial(self.append_late, replica)
            verified = replica.verified = VerifiedAppends(replica, self._verification, append)
        return verified.takes(group)

    def verify_by(self, verifier: TransactionVerifier) -> None:
        """Before this, no client's transaction begins here."""
        self._verification = AppendVerification(verifier, self._call_later)

    def append_marker(self, group: MarkerGroup) -> None:
        """Appends a transaction's marker; the group is completed once, now or when committed."""
        replica = self.replicas.get((group.topic_id, group.partition))
        if replica is None:
            group.fail(self._no_replica(group))
            return
        if self.full_directories and (refusal := self._no_space(replica, group)) is not None:
            replica.refuse_to_store(group, refusal)
            return
        try:
            replica.append_marker(group)
        except Exception as error:  # noqa: BLE001 - as in `append`.
            self._append_broke(replica, group, error)

    def _no_replica(self, group: AppendGroup) -> Failure:
        """The failure of a group that came to the wrong node.

        A replica may have been removed before gateways have heard of it. They keep what they sent if
        they hear of a newer epoch, in which nothing later can overtake it. Of the same epoch they
        hear nothing: this node may be about to make the replica.
        """
        leader, epoch = self._leader_elsewhere(group.topic_id, group.partition)
        if epoch <= group.leader_epoch:
            leader = epoch = -1
        return Failure(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            "no replica on this node",
            leader=leader,
            leader_epoch=epoch,
        )

    def fetch(self, work: FetchWork) -> None:
        """Answers at once if possible, else waits for bytes or time (Kafka's DelayedFetch).

        If a new leader's high watermark has not caught up with its predecessor's, a fetch without
        records waits, too: that partition gets OFFSET_NOT_AVAILABLE only if the high watermark has
        not caught up by the end of the wait.
        """
        served: ServedSet | None = None
        if work.fetch_set is not None:
            served = ServedSet.begin(work.fetch_set, work.isolation_level, self)
        nbytes, failed = self._read(work, work.max_wait_ms <= 0)
        if (
            failed
            or nbytes >= work.min_bytes
            or work.max_wait_ms <= 0
            or work.throttle_ms
            or not (work.partitions if served is None else served.asks)
            or (nbytes and _more_is_there(work))
        ):
            self._answer(work, nbytes)
            return
        for result in work.results:
            result.release()
        work.results = []
        wait = FetchWait(
            work.min_bytes - nbytes,
            partial(self._finish, work),
            partial(self._look_soon, work),
            read_committed=work.isolation_level == READ_COMMITTED,
        )
        for asked in work.partitions:
            wait.places.append(self.replicas[asked.topic_id, asked.partition].waiters)
        for place in wait.places:
            place.fetches[wait] = None
        if served is not None:
            served.wait = wait
        wait.timer = self._call_later(work.max_wait_ms / 1000, partial(self._expire, wait))
        work.waiting = wait
        self.waiting_fetches += 1

    def cancel_fetch(self, work: FetchWork) -> None:
        """Forgets a waiting fetch; `done` will not be called."""
        work.cancelled = True
        wait = work.waiting
        if isinstance(wait, FetchWait) and not wait.finished:
            wait.leave()
            self._forget(work, wait)

    def end_fetch_set(self, fetch_set: FetchSet) -> None:
        """Forgets a set that nobody will fetch again; a fetch of it that waits is answered."""
        served = fetch_set.at_node
        if isinstance(served, ServedSet):
            served.end_wait()
            served.end()
            fetch_set.forget()

    def _expire(self, wait: FetchWait) -> None:
        if not wait.finished:
            wait.leave()
            wait.finish(wait)

    def _finish(self, work: FetchWork, wait: FetchWait) -> None:
        self._forget(work, wait)
        nbytes, _ = self._read(work, True)
        self._answer(work, nbytes)

    def _look_soon(self, work: FetchWork, wait: FetchWait) -> None:
        """Schedules one `_look` per turn, for all partitions whose high watermarks move."""
        if not wait.looks_soon:
            wait.looks_soon = True
            self._call_later(0, partial(self._look, work, wait))

    def _look(self, work: FetchWork, wait: FetchWait) -> None:
        """Reads again for a waiting fetch after older records have become readable."""
        wait.looks_soon = False
        if wait.finished:
            return
        # A read that fails a replica ends all waits there, and must not find this one.
        places = list(wait.places)
        wait.leave()
        nbytes, failed = self._read(work, False)
        if (
            failed
            or nbytes >= work.min_bytes
            or work.throttle_ms
            or (nbytes and _more_is_there(work))
        ):
            self._forget(work, wait)
            self._answer(work, nbytes)
            return
        for result in work.results:
            result.release()
        work.results = []
        wait.wait_on(places, work.min_bytes - nbytes)

    def _answer(self, work: FetchWork, nbytes: int) -> None:
        self.fetched_bytes += nbytes
        if work.fetch_set is not None:
            served = work.fetch_set.at_node
            assert isinstance(served, ServedSet)
            served.answered(work)
        if nbytes and self._meters and (meter := self._meters.get(work.instance)) is not None:
            work.throttle_ms = meter.consumed(nbytes)
        work.done(work)

    def _forget(self, work: FetchWork, wait: FetchWait) -> None:
        self.waiting_fetches -= 1
        work.waiting = None
        if work.fetch_set is not None and isinstance(work.fetch_set.at_node, ServedSet):
            work.fetch_set.at_node.wait = None
        if wait.timer is not None:
            wait.timer.cancel()

    def _read(self, work: FetchWork, last: bool) -> tuple[int, bool]:
        """Fills `work.results`; the bytes found, and whether any partition has an error.

        `last`: the answer will not wait for more, whatever is found.
        """
        left = work.max_bytes
        none_yet = True
        if self._meters and (meter := self._meters.get(work.instance)) is not None:
            work.throttle_ms = meter.fetch_hold_ms()
            left = 0 if work.throttle_ms else meter.fetch_bytes_max(left)
            # A client over its quota gets offsets and errors, but no bytes.
            none_yet = not work.throttle_ms
            if left < 2 * work.min_bytes:
                work.min_bytes = 1  # No answer may have more bytes, so do not wait for them.
        total = 0
        failed = False
        results: list[FetchedPartition] = []
        isolation_level = work.isolation_level
        memory = work.memory
        copied_bytes_max = 0
        if memory is not None and not memory.replies_scarce:
            copied_bytes_max = work.copied_bytes_max
            if work.min_bytes > copied_bytes_max and not last:
                copied_bytes_max = 0  # It will probably wait, and a waiting fetch holds no bytes.
        partitions = work.partitions
        if work.fetch_set is not None:
            served = work.fetch_set.at_node
            assert isinstance(served, ServedSet)
            partitions = served.to_read(self.replicas)
        for asked in partitions:
            replica = self.replicas.get((asked.topic_id, asked.partition))
            if replica is None:
                result = FetchedPartition(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                try:
                    if work.near:
                        result = self._fetch_near(
                            work, replica, asked, copied_bytes_max, left, isolation_level, none_yet
                        )
                        failed = failed or result.preferred_replica >= 0
                    else:
                        result = replica.fetch(
                            asked, left, isolation_level, none_yet, copied_bytes_max
                        )
                except Exception as error:  # noqa: BLE001 - as in `append`.
                    again = partial(
                        replica.fetch, asked, left, isolation_level, none_yet,
                        follower_may=bool(work.near),
                    )  # fmt: skip
                    result = self.unreadable(replica, error, again)
            if result.error_code or result.diverging_epoch >= 0:
                failed = failed or result.error_code != ErrorCode.OFFSET_NOT_AVAILABLE
            nbytes = result.nbytes
            if nbytes:
                total += nbytes
                left -= nbytes
                none_yet = False
                if total >= COPIED_BYTES_MAX:
                    copied_bytes_max = 0
            results.append(result)
        work.results = results
        return total, failed

    def _fetch_near(
        self,
        work: FetchWork,
        replica: PartitionReplica,
        asked: FetchPartition,
        copied_bytes_max: int,
        max_bytes: int,
        isolation_level: int,
        first: bool,
    ) -> FetchedPartition:
        """As `PartitionReplica.fetch`, for a client that names its rack."""
        if self._rack_aware and replica.leading:
            preferred = preferred_replica(replica.core, work.near, asked.fetch_offset)
            if preferred != NO_NODE:
                result = replica.fetch(asked, 0, isolation_level, first=False)
                if not result.error_code and result.diverging_epoch < 0:
                    result.preferred_replica = preferred
                return result
        return replica.fetch(
            asked, max_bytes, isolation_level, first, copied_bytes_max, follower_may=True
        )

    def damaged(self, replica: PartitionReplica, error: StorageError) -> bool:
        """Reports an unreadable log; True if the damage has been handled."""
        return self._on_damage(replica, error)

    def _refusal_of_damaged(self, replica: PartitionReplica) -> ErrorCode:
        """A retriable error for damage that may be repaired soon, so the application sees none."""
        if self._may_heal_soon(replica):
            return ErrorCode.OFFSET_NOT_AVAILABLE
        return ErrorCode.CORRUPT_MESSAGE

    def unreadable(
        self,
        replica: PartitionReplica,
        error: Exception,
        again: Callable[[], FetchedPartition] | None = None,
    ) -> FetchedPartition:
        """Takes the partition offline, with its directory if the operating system failed.

        Records that are known to be damaged, or just became known as such, are only refused:
        `again` repeats the read, up to them.
        """
        if isinstance(error, DamagedRecordsError):
            return FetchedPartition(self._refusal_of_damaged(replica))
        if isinstance(error, (CorruptLogError, CorruptIndexError)) and self.damaged(replica, error):
            if again is None or replica.failed:
                return FetchedPartition(
                    replica.core.refuse_fetch(-1) or self._refusal_of_damaged(replica)
                )
            try:
                return again()
            except Exception as second:  # noqa: BLE001 - as the first.
                return self.unreadable(replica, second)
        if isinstance(error, LogDirFailure):
            replica.log_failed(error)
        else:
            replica.fail()
            self._on_bug(replica, error)
        return FetchedPartition(replica.core.refuse_fetch(-1) or ErrorCode.KAFKA_STORAGE_ERROR)


def _more_is_there(work: FetchWork) -> bool:
    """True if a partition has more records than its result: a wait would not make it larger.

    It is full, as only whole batches are sent, or ends with a segment (Kafka's `DelayedFetch`
    counts available bytes, not sent ones, and completes if the offset is in an older segment).
    """
    if work.isolation_level == READ_COMMITTED:
        return any(one.next_offset < one.last_stable_offset for one in work.results if one.nbytes)
    return any(
        result.next_offset < result.high_watermark for result in work.results if result.nbytes
    )
