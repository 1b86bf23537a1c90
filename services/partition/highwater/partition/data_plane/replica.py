"""One replica of one partition, as the data plane sees it: appends and reads of a leader.

Lifecycle: made when the log is open; `handle` takes what the cluster image says of its role;
`fail` ends it when its log directory breaks, `retire` when the node has it no longer.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from crc32c import crc32c

from highwater.hop.append import AppendGroup, Failure
from highwater.hop.fetch import READ_COMMITTED, FetchedPartition, FetchPartition
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import (
    ATTRIBUTES_AT,
    BATCH_HEADER,
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    TRANSACTIONAL_BIT,
    correct_max_timestamp,
    patched_prefix,
    restamp_log_append_time,
    set_base_offset_and_epoch,
)
from highwater.kafka.records.compression import Compression
from highwater.kafka.records.record import RECORD_SIZE_MIN
from highwater.partition.core import replica_effects as effect
from highwater.partition.core import replica_events as on
from highwater.partition.core.refusals import commit_timeout_code
from highwater.partition.core.replica import ACKS_ALL
from highwater.partition.core.succession import have_all
from highwater.partition.data_plane.mixed_outcome import MixedOutcome
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.ranges import SegmentRange
from highwater.partition.data_plane.refusals import verdict_on
from highwater.partition.data_plane.replica_role import ReplicaRole, unknown
from highwater.partition.data_plane.replication_port import Alone, ReplicationPort
from highwater.partition.data_plane.stalled_appends import StalledAppends
from highwater.partition.data_plane.waiters import CommitWait
from highwater.partition.storage.errors import LogDirFailure, StorageError
from highwater.partition.storage.log.append_info import LogAppendInfo

_FORBIDDEN_BITS = CONTROL_BIT | LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT
_unpack_header = BATCH_HEADER.unpack_from


class PartitionReplica(ReplicaRole):
    """See the module. Offsets count records, sizes bytes, times milliseconds."""

    __slots__ = (
        "_holds",
        "_in_hand",
        "_on_log_failure",
        "_stalled",
        "_unflushed",
        "policy",
        "port",
    )

    def __init__(
        self,
        *,
        policy: AppendPolicy,
        on_log_failure: "Callable[[PartitionReplica, StorageError], None]",
        port: "ReplicationPort[PartitionReplica] | None" = None,
        **place: Any,
    ) -> None:
        """`port` is None on a node without others. `place`: see `ReplicaRole`."""
        super().__init__(**place)
        self.port: ReplicationPort[PartitionReplica] = Alone() if port is None else port
        self.policy = policy
        self._on_log_failure = on_log_failure
        self._unflushed: dict[CommitWait, None] = {}
        """Groups that are acknowledged only when a flush that they asked for has ended."""
        self._holds = False
        """Has resigned and may go on, so appends wait here and not at gateways."""
        self._in_hand: CommitWait | None = None
        """The group that the thread writes to a stalled directory."""
        self._stalled: StalledAppends | None = None
        """Set while groups wait for the thread that writes to a stalled directory."""

    # ---- role ----

    def log_failed(self, error: StorageError) -> None:
        """Takes this replica offline, with its log's whole directory if I/O failed."""
        self._on_log_failure(self, error)

    def ask_port(
        self, wanted: effect.StartFollowing | effect.StopFollowing | effect.ProposeIsr
    ) -> None:
        """Asks the node for what takes other nodes."""
        match wanted:
            case effect.StartFollowing():
                self.port.follow(self, wanted.leader, wanted.leader_epoch)
            case effect.StopFollowing():
                self.port.stop_following(self)
            case effect.ProposeIsr():
                self.port.propose_isr(self, wanted)

    def _stopped_leading(self, error_code: int) -> None:
        # In the order in which they came, because gateways send them again in the order of ends.
        super()._stopped_leading(error_code)
        unflushed, self._unflushed = self._unflushed, {}
        for wait in unflushed:
            wait.give_up(unknown(error_code, "the flush was not seen to end"))
        if self._stalled is not None:
            not_written = unknown(error_code, "the write was not seen to end")
            if self._in_hand is not None and not self._in_hand.group.completed:
                self._in_hand.give_up(not_written)
            self._stalled.fail(not_written, self.not_leader())
            if self._holds:
                self._stalled = None
        self._holds = False

    def resign(self) -> bool:
        """See `ReplicaRole`. Not while groups wait for a stalled disk: others would overtake."""
        return self._stalled is None and super().resign()

    def hold_appends(self) -> bool:
        """Resigns, but lets appends wait here: either the next epoch refuses them, or `resume`
        takes them.
        """
        self._holds = not self.resigned and self.resign()
        return self._holds

    def resume(self) -> None:
        """Goes on in the same epoch, with what has waited; if it has not ended meanwhile."""
        if self._holds:
            self._holds = False
            self.core.handle(on.HandOverGivenUp())
            self.resume_appends()

    def handed_over_to(self, successor: int) -> bool:
        """True if this node has all of the log, and nobody waits for an answer."""
        waits = self._unflushed or self.waiters.commits
        followers, end = self.core.followers, self.log.log_end_offset
        return not waits and have_all(iter((successor,)), followers, end)

    @property
    def handed_over(self) -> bool:
        """See `ReplicaRole`. Nor does a group wait for a flush, which would be in doubt."""
        return not self._unflushed and super().handed_over

    # ---- append ----

    def append(self, group: AppendGroup, waited: bool = False) -> None:  # noqa: C901 - see below.
        """Checks, stamps and writes a group with one writev; completes it now or at the commit.

        `waited`: it is the turn of a group that had to wait for a stalled directory.
        One long loop on purpose: a call per batch would cost as much as the work itself.
        """
        if refused := self.core.refuse_append(group.leader_epoch, group.acks):
            self._refuse(group, refused, waited)
            return
        log = self.log
        busy = log.stall.stalled or log.late_writer.writing or self._stalled is not None
        if busy and not waited:
            self._append_when_possible(group)
            return
        policy = self.policy
        epoch = group.leader_epoch
        writable = group.writable
        now_ms = self.clock.wall_ms()
        timestamp_max = now_ms + policy.timestamp_after_ms_max
        plain = policy.plain
        bytes_max = min(policy.message_bytes_max, policy.segment_bytes)
        offset = log.extent.end_offset
        offsets: list[int] = []
        sizes: list[int] = []
        buffers: list[Any] = []
        outcome: MixedOutcome | None = None
        nbytes = 0
        max_timestamp = -1
        max_timestamp_offset = offset
        for batch in group.batches:
            size = len(batch)
            good = False
            failure: Failure | None = None
            if size >= HEADER_SIZE:
                header = _unpack_header(batch, 0)
                _, length, _, magic, crc, attributes, last_delta, _, timestamp, pid, _, _, count = (
                    header
                )
                good = (
                    plain
                    and length + LENGTH_OVERHEAD == size <= bytes_max
                    and magic == MAGIC
                    and last_delta + 1 == count > 0
                    and (
                        count * RECORD_SIZE_MIN <= size - HEADER_SIZE
                        or attributes & COMPRESSION_MASK
                    )
                    and not attributes & _FORBIDDEN_BITS
                    and attributes & COMPRESSION_MASK <= Compression.ZSTD
                    and timestamp <= timestamp_max
                    and (pid < 0 or header[11] >= 0)
                    and crc32c(batch[ATTRIBUTES_AT:]) == crc
                )
            if not good:
                verdict = verdict_on(batch, policy, now_ms)
                if isinstance(verdict, Failure):
                    failure = verdict
                elif policy.log_append_time or verdict != timestamp:
                    timestamp = verdict
                    if not writable:
                        batch = bytearray(batch)  # noqa: PLW2901 - a copy to be changed.
                    if policy.log_append_time:
                        restamp_log_append_time(batch, 0, size, now_ms)
                    else:
                        correct_max_timestamp(batch, 0, size, timestamp)
            known = -1
            if failure is None and pid >= 0:
                known = log.producers.append(
                    pid, header[10], header[11], last_delta, offset, timestamp
                )
                if known < -1:
                    failure = Failure(-known)
            if failure is not None or known >= 0:
                if outcome is None:
                    outcome = MixedOutcome(offsets)
                outcome.add(known, failure)
                continue
            if writable or type(batch) is bytearray:
                set_base_offset_and_epoch(batch, 0, offset, epoch)
                buffers.append(batch)
            else:
                buffers.append(patched_prefix(length, offset, epoch))
                buffers.append(batch[16:])
            offsets.append(offset)
            sizes.append(size)
            if outcome is not None:
                outcome.base_offsets.append(offset)
            offset += count
            nbytes += size
            if timestamp > max_timestamp:
                max_timestamp = timestamp
                max_timestamp_offset = offset - 1
        if policy.log_append_time:
            group.log_append_time_ms = now_ms
        if nbytes:
            if group.whole is not None and nbytes == len(group.whole):
                buffers = [group.whole]
            info = LogAppendInfo()
            info.leader_epoch = epoch
            info.buffers, info.nbytes = buffers, nbytes
            info.base_offsets, info.sizes, info.next_offset = offsets, sizes, offset
            info.max_timestamp, info.max_timestamp_offset = max_timestamp, max_timestamp_offset
            try:
                if waited and log.stall.stalled:
                    appended = offsets if outcome is None else outcome.base_offsets
                    failures = None if outcome is None else outcome.failures
                    wait = CommitWait(group, appended, failures, offset, nbytes)
                    if log.append_later(info, partial(self._written, wait)):
                        self._in_hand = wait
                        return
                else:
                    log.append(info)
            except LogDirFailure as error:
                self._log_failed(group, error)
                return
        if outcome is None:
            self._appended(group, offsets, None, offset, nbytes)
        else:
            self._appended(group, outcome.base_offsets, outcome.failures, offset, nbytes)

    def _log_failed(self, group: AppendGroup, error: LogDirFailure) -> None:
        self.log_failed(error)
        if not group.completed:  # One of `_stalled` is failed with all of them.
            group.fail(unknown(self.storage_error, str(error)))

    def _refuse(self, group: AppendGroup, error_code: int, waited: bool) -> None:
        """A leader that has resigned answers earlier groups first: gateways keep their order."""
        if not (self.resigned and self.leading) or waited or not self._answers_are_due():
            group.fail(self.refusal(error_code, group.leader_epoch))
            return
        if self._stalled is None:
            self._stalled = StalledAppends(self.log.stall)
        if not self._stalled.add(group):
            group.fail(Failure(ErrorCode.REQUEST_TIMED_OUT, "too much waits for the next leader"))

    def _answers_are_due(self) -> bool:
        """True while groups wait here that came before."""
        waits = self._stalled is not None or self.waiters.commits or self._unflushed
        return bool(self._holds or waits)

    def _append_when_possible(self, group: AppendGroup) -> None:
        """Queues a group for a stalled directory, in whose order all of them are written."""
        stalled, first = self._stalled, self._stalled is None
        if stalled is None:
            stalled = StalledAppends(self.log.stall)
        if not stalled.add(group):
            group.fail(Failure(ErrorCode.REQUEST_TIMED_OUT, "the log directory is too slow"))
        elif first:
            self._stalled = stalled
            self._append_stalled(stalled)

    def _append_stalled(self, stalled: StalledAppends) -> None:
        """Appends what waits until the writer thread has a group in hand, or nothing is left."""
        if self._holds:
            return
        try:
            while not self.log.late_writer.writing and (group := stalled.take()) is not None:
                self.append(group, waited=True)
        except Exception:
            # A bug; the caller reports it. Nobody may wait for what never comes.
            self.fail()
            raise
        finally:
            if not self.log.late_writer.writing and not stalled:
                self._stalled = None

    def _written(self, wait: CommitWait) -> None:
        """The writer thread has put a group of `_stalled` into the log."""
        stalled, group = self._stalled, wait.group
        assert stalled is not None
        self._in_hand = None
        if not group.completed:
            self._appended(
                group, wait.base_offsets, wait.failures, wait.required_offset, wait.nbytes
            )
        elif not self.failed:
            # The lead was lost meanwhile, and perhaps won again; the group was answered as unknown.
            self.written_late(group.leader_epoch, wait.required_offset, wait.nbytes)
            self._flush_late()
        self._append_stalled(stalled)

    def _appended(
        self,
        group: AppendGroup,
        base_offsets: list[int],
        failures: dict[int, Failure] | None,
        next_offset: int,
        nbytes: int,
    ) -> None:
        log = self.log
        group.log_start_offset = log.extent.start_offset
        if nbytes and log.extent.end_offset >= log.durability.flush_at_offset:
            wait = CommitWait(group, base_offsets, failures, next_offset, nbytes)
            self._unflushed[wait] = None
            self.core.appended(log.extent.end_offset, self.counted_end())
            self.flush(log, partial(self._flushed, wait))
        else:
            self._commit(group, base_offsets, failures, next_offset, nbytes)

    def _flushed(self, wait: CommitWait) -> None:
        """What the group asked to be flushed is on disk."""
        if wait in self._unflushed:
            del self._unflushed[wait]
            self._commit(
                wait.group, wait.base_offsets, wait.failures, wait.required_offset, wait.nbytes
            )
            return
        # The lead was lost meanwhile, and perhaps won again; the group was answered as unknown.
        if self.core.counted_end_offset < wait.required_offset <= self.log.extent.end_offset:
            if self.leading:
                self.waiters.appended(wait.required_offset, wait.nbytes)
            self._late_is_flushed()

    def _flush_late(self) -> None:
        """A write has ended that nobody waits for any more: if flush.messages asks for a flush, it
        counts only after that.
        """
        log = self.log
        if log.extent.end_offset >= log.durability.flush_at_offset:
            self.flush(log, self._late_is_flushed)
        else:
            self._fetch_again()

    def _late_is_flushed(self) -> None:
        self.log_end_moved()
        self._fetch_again()

    def _fetch_again(self) -> None:
        """A follower that could not fetch, because a write or a flush was under way."""
        if self.core.may_ask():
            self.port.follow(self, self.leader, self.leader_epoch)

    def _commit(
        self,
        group: AppendGroup,
        base_offsets: list[int],
        failures: dict[int, Failure] | None,
        next_offset: int,
        nbytes: int,
    ) -> None:
        if not nbytes:
            self._acknowledge(group, base_offsets, failures, next_offset)
            return
        core, log, waiters = self.core, self.log, self.waiters
        end = log.extent.end_offset
        moved = core.appended(
            end, end if end < log.durability.flush_at_offset else self.counted_end()
        )
        if moved is not None:
            self._commit_to(moved)
        self._acknowledge(group, base_offsets, failures, next_offset)
        if core.high_watermark < next_offset or waiters.uncommitted:
            waiters.appended(next_offset, nbytes)
            waiters.reached(core.high_watermark)
        elif waiters.fetches:
            waiters.bytes_committed(nbytes)
        if self.listeners:
            self.tell_listeners()

    def _acknowledge(
        self,
        group: AppendGroup,
        base_offsets: list[int],
        failures: dict[int, Failure] | None,
        next_offset: int,
    ) -> None:
        """Now, or with acks=all when the high watermark has passed the group."""
        if group.acks == ACKS_ALL and self.core.high_watermark < next_offset:
            group.release_bytes()
            self.waiters.add_commit(CommitWait(group, base_offsets, failures, next_offset))
        else:
            group.complete(base_offsets, failures)

    def expire_appends(self, now_ms: int) -> None:
        """Answers acks=all groups that nobody waits for any more; their records stay."""
        if self.waiters.commits:
            code = commit_timeout_code(self.core.under_min_isr)
            self.waiters.expire_commits(now_ms, code)

    def resume_appends(self) -> None:
        """The writer thread has ended what a follower gave it, or nothing that came before this
        replica resigned waits for an answer: groups that came since are next.
        """
        if self._stalled is not None:
            self._append_stalled(self._stalled)

    # ---- fetch ----

    def fetch(
        self, asked: FetchPartition, max_bytes: int, isolation_level: int, first: bool
    ) -> FetchedPartition:
        """Whole batches from the one that holds the offset, below HW or LSO.

        If the client's log is longer and diverges from ours, tell it where, not that its offset is
        out of range (Kafka's `Partition.readRecords`).

        `first` lets one batch through even if it is larger than `max_bytes` (KIP-74).
        """
        core = self.core
        refused = core.refuse_fetch(asked.current_leader_epoch)
        if refused:
            result = FetchedPartition(refused)
            if not self.leading:
                result.leader = core.leader
                result.leader_epoch = core.leader_epoch
            return result
        log = self.log
        offset = asked.fetch_offset
        extent = log.extent
        if offset < extent.start_offset:
            return FetchedPartition(ErrorCode.OFFSET_OUT_OF_RANGE)
        high_watermark = core.high_watermark
        # Without transactions nothing is unstable, so the LSO is the high watermark.
        result = FetchedPartition(0, high_watermark, high_watermark, extent.start_offset)
        if isolation_level == READ_COMMITTED:
            result.aborted_transactions = []
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.end_offset_for_epoch(asked.last_fetched_epoch)
            if end < 0:
                # Nothing is known of that epoch, so nor whether the client's log is this one.
                return FetchedPartition(ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < asked.last_fetched_epoch or end < offset:
                result.diverging_epoch = epoch
                result.diverging_end_offset = end
                return result
        if offset > extent.end_offset:
            return FetchedPartition(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset >= high_watermark and high_watermark < core.epoch_start_offset:
            # An earlier leader may have told of a higher one, and it must not go back (KIP-207).
            return FetchedPartition(ErrorCode.OFFSET_NOT_AVAILABLE)
        if offset >= high_watermark or (max_bytes <= 0 and not first):
            return result
        found = log.read(
            offset,
            min(max_bytes, asked.max_bytes),
            end_offset=high_watermark,
            min_one_batch=first,
            pass_empty=True,
        )
        if found is not None:
            result.records = SegmentRange(found, self.log_dir)
            result.nbytes = found.length
        return result
