"""One replica of one partition in the data plane: appends and reads of a leader.

Lifecycle: created when the log is open; `handle` applies its role from the cluster image; `fail`
ends it when its log directory fails, `retire` when the node no longer has it.
"""

from collections.abc import Callable
from typing import Unpack

from crc32c import crc32c

from highwater.hop.append import AppendGroup, Failure
from highwater.hop.fetch import READ_COMMITTED, FetchedPartition, FetchPartition
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.primitives import Buffer
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
from highwater.partition.core.succession import have_all
from highwater.partition.data_plane.append_answers import AppendAnswers
from highwater.partition.data_plane.conversions import Conversions
from highwater.partition.data_plane.marker_run import MarkerRun
from highwater.partition.data_plane.mixed_outcome import MixedOutcome
from highwater.partition.data_plane.node_group import MarkerGroup, NodeGroup
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.ranges import SegmentRange
from highwater.partition.data_plane.refusals import verdict_on
from highwater.partition.data_plane.replica_role import ReplicaPlace, ReplicaRole
from highwater.partition.data_plane.replication_port import Alone, ReplicationPort
from highwater.partition.data_plane.verified_appends import VerifiedAppends
from highwater.partition.data_plane.waiters import CommitWait
from highwater.partition.storage.errors import LogDirFailure, StorageError
from highwater.partition.storage.log.append_info import LogAppendInfo

_FORBIDDEN_BITS = CONTROL_BIT | LOG_APPEND_TIME_BIT
_NOBODYS_TRANSACTION = Failure(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
"""As without a transactional id: no producer can have one."""
_NO_TRANSACTIONAL_ID = -int(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
"""Nobody was asked whether the client may write in a transaction; as in Kafka's `KafkaApis`."""
_COMPRESSION_MAX = int(Compression.ZSTD)
"""A plain number: to compare with the enumeration's member takes four times as long."""
_unpack_header = BATCH_HEADER.unpack_from


class PartitionReplica(ReplicaRole):
    """See the module. Offsets count records, sizes bytes, times milliseconds."""

    __slots__ = (
        "_on_log_failure",
        "_verifications",
        "answers",
        "conversions",
        "end_held",
        "policy",
        "port",
        "verified",
    )

    def __init__(
        self,
        *,
        policy: AppendPolicy,
        on_log_failure: "Callable[[PartitionReplica, StorageError], None]",
        port: "ReplicationPort[PartitionReplica] | None" = None,
        **place: Unpack[ReplicaPlace],
    ) -> None:
        """`port` is None on a node without others. `place`: see `ReplicaRole`."""
        super().__init__(**place)
        self.port: ReplicationPort[PartitionReplica] = Alone() if port is None else port
        self.policy = policy
        self._verifications = self.log.producers.states.verifications
        self._on_log_failure = on_log_failure
        self.answers = AppendAnswers(self, append=self._append_queued)
        """Answers the groups that `append` was given."""
        self.conversions: Conversions | None = None
        """Set once the topic had a compression.type of its own."""
        self.verified: VerifiedAppends | None = None
        """Set once a transaction's group came: those that wait for the coordinator."""
        self.end_held: Callable[[Failure], None] | None = None
        """Set once a group of a limited instance came: fails those that wait for its share."""

    # ---- role ----

    def log_failed(self, error: StorageError) -> None:
        """Takes this replica offline, with its log's whole directory if I/O failed."""
        self._on_log_failure(self, error)

    def ask_port(
        self, wanted: effect.StartFollowing | effect.StopFollowing | effect.ProposeIsr
    ) -> None:
        """Asks the node for actions that need other nodes."""
        match wanted:
            case effect.StartFollowing():
                self.port.follow(self, wanted.leader, wanted.leader_epoch)
            case effect.StopFollowing():
                self.port.stop_following(self)
            case effect.ProposeIsr():
                self.port.propose_isr(self, wanted)

    def _stopped_leading(self, error_code: int) -> None:
        super()._stopped_leading(error_code)
        self.answers.leader_gone(error_code)
        self._verifications.clear()
        if self.verified is not None:
            self.verified.leader_gone()
        if self.end_held is not None:
            self.end_held(self.not_leader())

    def resign(self) -> bool:
        """See `ReplicaRole`. Not while groups wait for a stalled disk: others would overtake."""
        return self.answers.stalled is None and super().resign()

    def hold_appends(self) -> bool:
        """Resigns, but lets appends wait here until the next epoch refuses them, or `resume`
        appends them.
        """
        holds = self.answers.holds = not self.resigned and self.resign()
        return holds

    def resume(self) -> None:
        """Continues in the same epoch with the waiting appends, unless the epoch has ended."""
        if self.answers.holds:
            self.answers.holds = False
            self.core.handle(on.HandOverGivenUp())
            self.answers.go_on()

    def handed_over_to(self, successor: int) -> bool:
        """True if `successor` has all of the log, and no group waits for an answer."""
        waits = self.answers.unflushed or self.waiters.commits
        followers, end = self.core.followers, self.log.log_end_offset
        return not waits and have_all(iter((successor,)), followers, end)

    @property
    def handed_over(self) -> bool:
        """See `ReplicaRole`. False also while a group waits for a flush: its outcome is open."""
        return not self.answers.unflushed and super().handed_over

    # ---- append ----

    def may_take(self, leader_epoch: int) -> bool:
        """Whether groups of that epoch are appended here, now or when a leader that has resigned
        resumes; if not, they came to the wrong node, or at the wrong time.
        """
        return leader_epoch == self.core.append_epoch or (self.resigned and self.leading)

    def refuses(self, group: AppendGroup) -> bool:
        """Whether it would refuse the group now, whatever its batches are. Not if it has resigned:
        it may resume, and then append what waited.
        """
        return not self.resigned and bool(self.core.refuse_append(group.leader_epoch, group.acks))

    def log_released(self) -> None:
        """The log was held (`LogRelocation`), and may be written again."""
        if not self.failed:
            self.fetch_again()
            self.answers.go_on()

    def refuse_to_store(self, group: AppendGroup, refusal: Failure) -> None:
        """Answers a group that must not be appended, whatever its batches are."""
        if refused := self.core.refuse_append(group.leader_epoch, group.acks):
            self.answers.refuse(group, refused, waited=False)
        else:
            self.answers.refuse_to_store(group, refusal)

    def append(self, group: AppendGroup, waited: bool = False) -> None:  # noqa: C901 - see below.
        """Checks, stamps and writes a group with one writev; completes it now or at the commit.

        `waited`: the group was queued for a stalled directory, and is next.
        One long loop on purpose: a call per batch would cost as much as the work itself.
        """
        if self.conversions is not None and not waited and self.conversions.take(group):
            return
        epoch = group.leader_epoch
        answers = self.answers
        if refused := self.core.refuse_append(epoch, group.acks):
            answers.refuse(group, refused, waited)
            return
        log = self.log
        if not waited and (
            log.stall.stalled or log.late_writer.writing or answers.stalled is not None
        ):
            answers.queue(group)
            return
        policy = self.policy
        writable = group.writable
        now_ms = self.clock.wall_ms()
        timestamp_max = now_ms + policy.timestamp_after_ms_max
        # The node's own records are what it has made: with keys, and with the time of this clock.
        own = not policy.plain and not policy.log_append_time and isinstance(group, NodeGroup)
        plain = own or policy.plain
        bytes_max = policy.batch_bytes_max
        offset = log.extent.end_offset
        offsets: list[int] = []
        sizes: list[int] = []
        buffers: list[Buffer] = []
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
                    and attributes & COMPRESSION_MASK <= _COMPRESSION_MAX
                    and header[7] <= timestamp <= timestamp_max  # Not before the first one.
                    and (pid < 0 or header[11] >= 0 or own)
                    and crc32c(batch[ATTRIBUTES_AT:]) == crc
                )
            if not good:
                from_client = not isinstance(group, NodeGroup)
                verdict = verdict_on(batch, policy, now_ms, from_client=from_client)
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
            if failure is None and pid < 0 and attributes & TRANSACTIONAL_BIT:
                failure = _NOBODYS_TRANSACTION
            elif failure is None and pid >= 0:
                states = log.producers.states
                if attributes & TRANSACTIONAL_BIT:
                    of_node = isinstance(group, NodeGroup)
                    if group.transaction is None and not of_node:
                        known = _NO_TRANSACTIONAL_ID
                    else:
                        known = states.append_transactional(
                            pid, header[10], header[11], last_delta, offset, timestamp,
                            may_begin=of_node,
                        )  # fmt: skip
                else:
                    known = states.append(
                        pid, header[10], header[11], last_delta, offset, timestamp
                    )
                if known < -1:
                    failure = Failure(-known)
            if failure is not None or known >= 0:
                if outcome is None:
                    outcome = MixedOutcome(offsets)
                before = -1 if failure is not None else log.producers.states.known_at(pid, known)
                outcome.add(known, failure, before)
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
        failures: dict[int, Failure] | None = None
        told = offsets
        if outcome is not None:
            told, failures = outcome.base_offsets, outcome.failures
            group.known_timestamps = outcome.known_timestamps
        if nbytes:
            if group.whole is not None and nbytes == len(group.whole):
                buffers = [group.whole]
            info = LogAppendInfo()
            info.leader_epoch = epoch
            info.buffers, info.nbytes = buffers, nbytes
            info.base_offsets, info.sizes, info.next_offset = offsets, sizes, offset
            info.max_timestamp, info.max_timestamp_offset = max_timestamp, max_timestamp_offset
            try:
                if not (waited and log.stall.stalled):
                    log.writer.append(info)
                elif answers.write_later(CommitWait(group, told, failures, offset, nbytes), info):
                    return
            except LogDirFailure as error:
                answers.log_failed(CommitWait(group, told, failures, offset), error)
                return
        answers.appended(group, told, failures, offset, nbytes)

    def append_built(self, group: NodeGroup) -> None:
        """As `append`, for one batch that the node has just built; it is not read again, but for its
        count and time.
        """
        log, policy, answers = self.log, self.policy, self.answers
        batch = group.batches[0]
        header = _unpack_header(batch, 0)
        if (
            header[9] >= 0  # Of a producer.
            or group.nbytes > policy.batch_bytes_max
            or policy.log_append_time
            or self.conversions is not None
            or log.stall.stalled
            or log.late_writer.writing
            or answers.stalled is not None
            or self.core.refuse_append(group.leader_epoch, group.acks)
        ):
            self.append(group)
            return
        offset = log.extent.end_offset
        set_base_offset_and_epoch(batch, 0, offset, group.leader_epoch)
        offsets = [offset]
        info = LogAppendInfo()
        info.leader_epoch = group.leader_epoch
        info.buffers, info.nbytes = group.batches, group.nbytes
        info.base_offsets, info.sizes = offsets, [group.nbytes]
        info.next_offset = offset + header[12]
        info.max_timestamp, info.max_timestamp_offset = header[8], info.next_offset - 1
        try:
            log.writer.append(info)
        except LogDirFailure as error:
            answers.log_failed(CommitWait(group, offsets, None, info.next_offset), error)
            return
        answers.appended(group, offsets, None, info.next_offset, group.nbytes)

    def _append_queued(self, group: AppendGroup, waited: bool) -> None:
        if isinstance(group, MarkerGroup):
            self.append_marker(group, waited)
        else:
            self.append(group, waited)

    def append_marker(self, group: MarkerGroup, waited: bool = False) -> None:
        """As `append`, for markers of transactions (Kafka's `appendEndTxnMarker`)."""
        if self.conversions is not None and not waited and self.conversions.take(group):
            return  # Offsets of the transaction may be in conversion, and are not refused behind it.
        answers, log = self.answers, self.log
        if refused := self.core.refuse_append(group.leader_epoch, group.acks):
            answers.refuse(group, refused, waited)
            return
        if not waited and (
            log.stall.stalled or log.late_writer.writing or answers.stalled is not None
        ):
            answers.queue(group)
            return
        run = MarkerRun(group, log.producers.states, log.extent.end_offset)
        run.judge(self.clock.wall_ms(), log_append_time=self.policy.log_append_time)
        info, told, failures = run.info, run.base_offsets, run.failures
        if not info.nbytes:
            group.complete(told, failures)
            return
        try:
            if not (waited and log.stall.stalled):
                if run.aborted is not None:
                    log.transactions.before_abort(run.aborted, info)
                log.writer.append(info)
            elif answers.write_later(
                CommitWait(group, told, failures, info.next_offset, info.nbytes), info, run.aborted
            ):
                return
        except LogDirFailure as error:
            answers.log_failed(CommitWait(group, told, failures, info.next_offset), error)
            return
        answers.appended(group, told, failures, info.next_offset, info.nbytes)

    # ---- fetch ----

    def fetch(
        self,
        asked: FetchPartition,
        max_bytes: int,
        isolation_level: int,
        first: bool,
        copied_bytes_max: int = 0,
        *,
        follower_may: bool = False,
    ) -> FetchedPartition:
        """Whole batches from the one that holds the offset, below HW or LSO.

        If the client's log is longer and diverges from ours, tell it where, not that its offset is
        out of range (Kafka's `Partition.readRecords`).

        `first` lets one batch through even if it is larger than `max_bytes` (KIP-74). Records of up
        to `copied_bytes_max` bytes are bytes if they are in the page cache; others stay in the file.
        With `follower_may`, a follower answers, too, with what it knows to be committed.
        """
        core = self.core
        asked_epoch = asked.current_leader_epoch
        refused = core.refuse_read(asked_epoch) if follower_may else core.refuse_fetch(asked_epoch)
        if refused:
            return self._refused(refused)
        log = self.log
        offset = asked.fetch_offset
        extent = log.extent
        if offset < extent.start_offset:
            return FetchedPartition(ErrorCode.OFFSET_OUT_OF_RANGE)
        high_watermark = readable_end = core.high_watermark
        transactions = self.transactions
        stable = self.last_stable_offset() if transactions.seen else high_watermark
        result = FetchedPartition(0, high_watermark, stable, extent.start_offset)
        committed = isolation_level == READ_COMMITTED
        if committed:
            result.aborted_transactions = []
            readable_end = stable
        if asked.last_fetched_epoch >= 0 and (cut := self._diverging(asked, result)) is not None:
            return cut
        if offset > extent.end_offset:
            return FetchedPartition(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset >= high_watermark and high_watermark < core.epoch_start_offset and self.leading:
            # An earlier leader may have returned a higher one, and it must not go back (KIP-207).
            return FetchedPartition(ErrorCode.OFFSET_NOT_AVAILABLE)
        if offset >= readable_end or (max_bytes <= 0 and not first):
            if committed and not transactions.is_known(high_watermark):  # Then none is stable.
                return FetchedPartition(ErrorCode.OFFSET_NOT_AVAILABLE)
            return result
        asked_bytes = asked.max_bytes
        if max_bytes < asked_bytes:
            asked_bytes = max_bytes
            if max_bytes < copied_bytes_max and not first:
                # The end of a large fetch, into which perhaps not one batch fits.
                copied_bytes_max = 0
        found = log.reader.read(
            offset,
            asked_bytes,
            end_offset=readable_end,
            min_one_batch=first,
            pass_empty=True,
            copied_bytes_max=copied_bytes_max,
        )
        if found is not None:
            if committed and transactions.seen:
                result.aborted_transactions = log.transactions.aborted(offset, found.next_offset)
            result.records = found.data or SegmentRange(found, self.log_dir)
            result.nbytes = found.length
            result.next_offset = found.next_offset
        return result

    def _refused(self, code: int) -> FetchedPartition:
        """An error, with the leader if that is another node."""
        result = FetchedPartition(code)
        if not self.leading:
            result.leader = self.core.leader
            result.leader_epoch = self.core.leader_epoch
        return result

    def _diverging(
        self, asked: FetchPartition, result: FetchedPartition
    ) -> FetchedPartition | None:
        """The answer if the client's log is not a prefix of ours."""
        epoch, end = self.log.epochs.end_offset_for(asked.last_fetched_epoch)
        if end < 0:
            # The epoch is unknown here, so the client's log may be another one.
            return FetchedPartition(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
            result.diverging_epoch = epoch
            result.diverging_end_offset = end
            return result
        return None
