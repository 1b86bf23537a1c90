"""The markers of one group as batches at the end of a leader's log."""

from highwater.hop.append import Failure
from highwater.kafka.records.batch import restamp_log_append_time
from highwater.model.transactions import TransactionMarker
from highwater.partition.core.producers import ACCEPT, STRICT_EPOCHS_FROM, ProducerStates
from highwater.partition.core.transactions import AbortedTransaction
from highwater.partition.data_plane.mixed_outcome import MixedOutcome
from highwater.partition.data_plane.node_group import MarkerGroup, marker_batch
from highwater.partition.storage.log.append_info import Buffer, LogAppendInfo


class MarkerRun:
    """What of a group goes into the log, and what is told of each marker. Lives for one append."""

    __slots__ = ("_group", "_outcome", "_states", "aborted", "info")

    def __init__(self, group: MarkerGroup, states: ProducerStates, end_offset: int) -> None:
        """`states` and `end_offset` are the log's."""
        self._group = group
        self._states = states
        self._outcome: MixedOutcome | None = None
        self.aborted: AbortedTransaction | None = None
        """For the index of transactions."""
        info = self.info = LogAppendInfo()
        info.leader_epoch = group.leader_epoch
        info.base_offsets, info.sizes, info.nbytes = [], [], 0
        info.next_offset = end_offset

    @property
    def base_offsets(self) -> list[int]:
        """By marker, its offset; -1 if it was refused."""
        return self.info.base_offsets if self._outcome is None else self._outcome.base_offsets

    @property
    def failures(self) -> dict[int, Failure] | None:
        """By place in the group, why a marker was refused."""
        return None if self._outcome is None else self._outcome.failures

    def judge(self, now_ms: int, *, log_append_time: bool) -> None:
        """Notes each marker in the producers' states as one that goes into the log, or refuses it."""
        states, info = self._states, self.info
        info.max_timestamp, info.max_timestamp_offset = now_ms, info.next_offset
        buffers: list[Buffer] = []
        for marker in self._group.markers:
            verdict = states.check_marker(marker)
            if verdict != ACCEPT:
                if self._outcome is None:
                    self._outcome = MixedOutcome(info.base_offsets)
                self._outcome.add(-1, Failure(-verdict))
                continue
            offset = info.next_offset
            batch: Buffer = marker_batch(marker, offset, info.leader_epoch, now_ms)
            if log_append_time:
                batch = bytearray(batch)
                restamp_log_append_time(batch, 0, len(batch), now_ms)
            self._note(marker, offset, now_ms)
            buffers.append(batch)
            info.base_offsets.append(offset)
            info.sizes.append(len(batch))
            info.next_offset = offset + 1
            if self._outcome is not None:
                self._outcome.base_offsets.append(offset)
        info.buffers = buffers if len(buffers) == 1 else [b"".join(buffers)]
        info.nbytes = sum(info.sizes)

    def _note(self, marker: TransactionMarker, offset: int, now_ms: int) -> None:
        producer_id, epoch = marker.producer_id, marker.producer_epoch
        strict = marker.transaction_version >= STRICT_EPOCHS_FROM
        self._states.verifications.ended(producer_id, epoch, strict=strict)
        self.aborted = self._states.record_marker(
            producer_id,
            epoch,
            marker.coordinator_epoch,
            offset,
            now_ms,
            committed=marker.committed,
        )
