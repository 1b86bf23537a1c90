"""How a follower's log becomes equal to its leader's: checks and applies the answers it gets.

Whole batches are appended unchanged; only their headers are read. Roles, high watermarks and
truncation are decided by `core.replica.Replica`, not here.
Source: Kafka's `ReplicaFetcherThread.processPartitionData` and `UnifiedLog.appendAsFollower`.
"""

import enum
from functools import partial
from typing import Final

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import BATCH_HEADER, HEADER_SIZE
from highwater.partition.core import replica_events as on
from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.core.transitions import Role
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.follower.batch_runs import Run, split_runs
from highwater.partition.replication.follower.late_rows import LateRows
from highwater.partition.replication.rows import NONE, Answered, Asked
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.log.log import PartitionLog
from highwater.partition.storage.recovery.producer_recovery import replay_batch

_unpack_header = BATCH_HEADER.unpack_from
_NO_END: Final = 1 << 63
"""Larger than every offset."""


class Outcome(enum.Enum):
    """The result of an answer, which decides when the follower asks for the partition again."""

    DONE = "done"
    """The answer is applied: ask at once, from the log's end."""
    TOLD = "told"
    """The answer had only offsets: do not ask, the leader still has the question."""
    LATE = "late"
    """Ask when the disk has caught up (`LateRows`)."""
    REFUSED = "refused"
    """Ask after a pause: the leader cannot answer now, or too much waits for the disk."""
    STALE = "stale"
    """Ask at once, for bytes: the leader's file does not hold the records that it announced."""
    OVER = "over"
    """Do not ask before a new `follow`: this replica no longer follows in that epoch."""


class UnsoundAnswerError(Exception):
    """The leader's answer cannot be applied; sound batches before the fault are in the log."""


def asked_of(replica: PartitionReplica) -> Asked | None:
    """What this follower has to ask next; None while it may not fetch, or its log is written to.

    After a write of the writer thread, `LateRows` or the port's `follow` makes it ask again; with
    space on a disk that was full, the node's guard of disks.
    """
    core = replica.core
    if replica.log.late_writer.writing or replica.fetches_nothing or not core.may_ask():
        return None
    return Asked(
        replica.topic_id,
        replica.partition,
        core.leader_epoch,
        replica.log.extent.end_offset,
        core.epochs.latest,
        core.kept_log_start,
    )


def append_from_leader(
    replica: PartitionReplica, answered: Answered, late: LateRows, last_epoch: int = NONE
) -> Outcome:
    """Apply an answer: records and offsets, or a truncation.

    `last_epoch` is set if the records were read from the leader's file: their last leader epoch.

    Raises UnsoundAnswerError if a batch is unsound; it and all later ones are not in the log.
    If I/O fails, the log directory is taken offline.
    """
    core, log = replica.core, replica.log
    if not core.may_fetch(answered.leader_epoch):
        return Outcome.OVER
    if log.late_writer.writing:
        return Outcome.REFUSED
    if answered.fetch_offset != log.extent.end_offset:
        return Outcome.DONE
    try:
        if answered.error_code and answered.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            return Outcome.REFUSED
        if answered.error_code or answered.diverging_epoch != NONE:
            return _cut(replica, answered)
        if not answered.records:
            _take_offsets(replica, answered)
            return Outcome.TOLD
        return _append(replica, answered, late, last_epoch)
    except LogDirFailure as error:
        replica.log_failed(error)
        return Outcome.OVER


def _cut(replica: PartitionReplica, answered: Answered) -> Outcome:
    """Let the state machine truncate. Raises if nothing changes: the same answer would repeat."""
    log = replica.log
    before = log.extent.start_offset, log.extent.end_offset, log.epochs.cache.latest
    if answered.error_code:
        replica.handle(
            on.OutOfRange(
                leader_epoch=answered.leader_epoch,
                fetch_offset=answered.fetch_offset,
                last_fetched_epoch=answered.last_fetched_epoch,
                leader_log_start_offset=answered.log_start_offset,
                leader_log_end_offset=answered.log_end_offset,
            )
        )
    else:
        replica.handle(
            on.Diverged(
                leader_epoch=answered.leader_epoch,
                fetch_offset=answered.fetch_offset,
                last_fetched_epoch=answered.last_fetched_epoch,
                epoch=answered.diverging_epoch,
                end_offset=answered.diverging_end_offset,
            )
        )
    if not replica.core.may_fetch(answered.leader_epoch):
        return Outcome.OVER
    if (log.extent.start_offset, log.extent.end_offset, log.epochs.cache.latest) == before:
        raise UnsoundAnswerError(
            f"told to truncate at {answered.fetch_offset} (epoch {answered.last_fetched_epoch}), "
            "which leaves the log as it is"
        )
    return Outcome.DONE


def _append(
    replica: PartitionReplica, answered: Answered, late: LateRows, last_epoch: int
) -> Outcome:
    log, records = replica.log, answered.records
    assert isinstance(records, memoryview)
    if last_epoch == NONE:
        _begin_inside_first_batch(replica, records)
    runs, unsound = split_runs(
        records,
        offset=log.extent.end_offset,
        epoch=log.epochs.cache.latest,
        epoch_max=answered.leader_epoch,
        # If cleanup.policy changed, the log may have been compacted, up to the high watermark.
        gaps_end=_NO_END if log.config.compact else answered.high_watermark,
    )
    if last_epoch != NONE and (unsound or not runs or runs[-1].info.leader_epoch != last_epoch):
        return Outcome.STALE
    refused = False
    for run in runs:
        if run.gap:
            log.cleaning.mark_gaps()
        if log.stall.stalled:
            refused = not late.admit(replica, run.info.nbytes)
            if refused:
                break
            if _append_later(replica, run, answered, late):
                return Outcome.LATE
            late.leave(replica)
        else:
            aborted = _note_producers(log, run)
            if aborted is not None:
                log.transactions.before_abort(aborted, run.info)
            run.info.buffers = [records[run.start : run.stop]]
            log.writer.append(run.info)
        # After each run: the state machine must know the log's end even if the next run fails.
        _take_offsets(replica, answered)
    flushed = _flushed(replica, late)
    if unsound:
        raise UnsoundAnswerError(unsound)
    return Outcome.REFUSED if refused else flushed


def _note_producers(log: PartitionLog, run: Run) -> AbortedTransaction | None:
    """Note the run's batches, before it is written; what its first batch aborts."""
    aborted = None
    for header in run.idempotent:
        ended = replay_batch(log.producers.states, header, run.markers.get(header[0]))
        if ended is not None:
            aborted = ended
    return aborted


def _append_later(replica: PartitionReplica, run: Run, answered: Answered, late: LateRows) -> bool:
    """Give a run to the writer thread; False if it is in the log already (`LateWriter`).

    The rest of the answer is dropped: only one write of a log is under way at a time. The bytes
    are copied, so that the much longer message is not kept in memory.
    """
    log, records = replica.log, answered.records
    assert isinstance(records, memoryview)
    aborted = _note_producers(log, run)
    run.info.buffers = [bytes(records[run.start : run.stop])]
    done = partial(_written, replica, answered, late, run)
    return log.late_writer.append(run.info, done, aborted)


def _written(replica: PartitionReplica, answered: Answered, late: LateRows, run: Run) -> None:
    """Handle a run that the writer thread has written; the role may have changed meanwhile."""
    core = replica.core
    if core.role not in (Role.FOLLOWER, Role.LEADER):
        late.leave(replica)
        return
    try:
        if core.may_fetch(answered.leader_epoch):
            _take_offsets(replica, answered)
        else:
            replica.written_late(run.info.leader_epoch, run.info.next_offset, run.info.nbytes)
        if _flushed(replica, late) is Outcome.DONE:
            late.end(replica)
        replica.answers.go_on()
    except LogDirFailure as error:
        replica.log_failed(error)


def _flushed(replica: PartitionReplica, late: LateRows) -> Outcome:
    """Start the flush that flush.messages asks for: the next fetch acknowledges, so it waits."""
    log = replica.log
    if log.extent.end_offset < log.durability.flush_at_offset:
        return Outcome.DONE
    late.flush(replica)
    return Outcome.LATE


def _take_offsets(replica: PartitionReplica, answered: Answered) -> None:
    """Take the log's end, the leader's high watermark up to there, and its log start offset."""
    core, log = replica.core, replica.log
    replica.moved(
        core.replicated(log.extent.end_offset, replica.counted_end(), answered.high_watermark)
    )
    log_start_offset = min(answered.log_start_offset, core.high_watermark)
    if log_start_offset > log.extent.start_offset:
        log.advance_start(log_start_offset)
        core.log_start_moved(log_start_offset)
    if core.kept_log_start < log.extent.start_offset:
        replica.keep_log_start()


def _begin_inside_first_batch(replica: PartitionReplica, records: memoryview) -> None:
    """Make an empty log begin with a whole batch if the leader's log begins inside it.

    This happens after DeleteRecords. As in Kafka
    (`Partition.appendRecordsToFollowerOrFutureReplica`), the log takes the batch from its base
    offset, and its start offset is then moved forward again.
    """
    log = replica.log
    offset = log.extent.end_offset
    if log.extent.start_offset != offset or len(records) < HEADER_SIZE:
        return
    header = _unpack_header(records, 0)
    base_offset, last_offset = header[0], header[0] + header[6]
    if not 0 <= base_offset < offset <= last_offset:
        return
    replica.began_at(base_offset)
