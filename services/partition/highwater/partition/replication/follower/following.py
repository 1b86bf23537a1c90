"""A follower's log made equal to its leader's: what came for one partition is checked and taken.

Bytes are appended as they came, whole batches at a time; their headers alone are read. Nothing is
decided here about roles, high watermarks or truncation: that is `core.replica.Replica`.
Source: Kafka's `ReplicaFetcherThread.processPartitionData` and `UnifiedLog.appendAsFollower`.
"""

import enum
from functools import partial
from typing import Final

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import BATCH_HEADER, HEADER_SIZE
from highwater.partition.core import replica_events as on
from highwater.partition.core.transitions import Role
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.follower.batch_runs import Run, split_runs
from highwater.partition.replication.follower.late_rows import LateRows
from highwater.partition.replication.rows import NONE, Answered, Asked
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.recovery.producer_recovery import replay_batch

_unpack_header = BATCH_HEADER.unpack_from
_NO_END: Final = 1 << 63
"""Beyond all offsets."""


class Outcome(enum.Enum):
    """What became of an answer, and so when its partition is asked for again."""

    DONE = "done"
    """Carried out: at once, from where the log now ends."""
    TOLD = "told"
    """It only told offsets; the leader still has the partition as asked for."""
    LATE = "late"
    """When the disk has caught up (`LateRows`)."""
    REFUSED = "refused"
    """After a while: the leader cannot answer now, or too much waits for the disk."""
    STALE = "stale"
    """At once, as bytes: the leader's file does not hold the records that it promised."""
    OVER = "over"
    """Not before a new `follow`: this replica does not follow in that epoch any more."""


class UnsoundAnswerError(Exception):
    """The leader's answer cannot be carried out; sound batches before it have been taken."""


def asked_of(replica: PartitionReplica) -> Asked | None:
    """What this follower is to ask next; None while it may not fetch, or its log is written to.

    Whoever has the writer thread write starts it again: `LateRows`, or the port's `follow`.
    """
    core = replica.core
    if replica.log.late_writer.writing or not core.may_ask():
        return None
    return Asked(
        replica.topic_id,
        replica.partition,
        core.leader_epoch,
        replica.log.extent.end_offset,
        core.epochs.latest,
    )


def append_from_leader(
    replica: PartitionReplica, answered: Answered, late: LateRows, last_epoch: int = NONE
) -> Outcome:
    """Carries out an answer: records and offsets, or a truncation.

    With `last_epoch`, of the last record, the records were read from the leader's file.

    Raises UnsoundAnswerError; its records from there on are not in the log. If I/O fails the
    log directory is taken offline.
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
    """Lets the state machine truncate; an answer that changes nothing must not come in a loop."""
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
        # A topic whose policy was changed may have been compacted before, as far as committed.
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
            for header in run.idempotent:
                replay_batch(log.producers.states, header)
            run.info.buffers = [records[run.start : run.stop]]
            log.writer.append(run.info)
        # After each run: the state machine must know the log's end whatever becomes of the next.
        _take_offsets(replica, answered)
    flushed = _flushed(replica, late)
    if unsound:
        raise UnsoundAnswerError(unsound)
    return Outcome.REFUSED if refused else flushed


def _append_later(replica: PartitionReplica, run: Run, answered: Answered, late: LateRows) -> bool:
    """Leaves a run to the writer thread; False if it is in the log already.

    What follows in the answer is dropped: only one write of a log is under way at a time. The
    bytes are copied, because the message that they came in is much longer.
    """
    log, records = replica.log, answered.records
    assert isinstance(records, memoryview)
    for header in run.idempotent:
        replay_batch(log.producers.states, header)
    run.info.buffers = [bytes(records[run.start : run.stop])]
    return log.late_writer.append(run.info, partial(_written, replica, answered, late, run))


def _written(replica: PartitionReplica, answered: Answered, late: LateRows, run: Run) -> None:
    """The writer thread has put a run into the log; roles may have changed meanwhile."""
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
    """A flush that flush.messages demands comes before the next fetch, which acknowledges."""
    log = replica.log
    if log.extent.end_offset < log.durability.flush_at_offset:
        return Outcome.DONE
    late.flush(replica)
    return Outcome.LATE


def _take_offsets(replica: PartitionReplica, answered: Answered) -> None:
    """The log's end, the leader's high watermark as far as the log goes, and its log start."""
    core, log = replica.core, replica.log
    replica.moved(
        core.replicated(log.extent.end_offset, replica.counted_end(), answered.high_watermark)
    )
    log_start_offset = min(answered.log_start_offset, core.high_watermark)
    if log_start_offset > log.extent.start_offset:
        log.deletion.advance_start(log_start_offset)
        core.log_start_moved(log_start_offset)


def _begin_inside_first_batch(replica: PartitionReplica, records: memoryview) -> None:
    """An empty log takes the whole batch in which the leader's log begins.

    After DeleteRecords a log may begin inside a batch; as in Kafka
    (`Partition.appendRecordsToFollowerOrFutureReplica`) the log then begins with that batch, and
    its start offset is moved forward again.
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
