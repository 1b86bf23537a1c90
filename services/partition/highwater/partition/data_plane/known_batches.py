"""Batches of a refused group that an earlier attempt has put into the log.

A leader whose ISR is too small appends nothing for acks=all. A batch that is already in its log must
not be refused with NOT_ENOUGH_REPLICAS, which says that it is not stored: the client's next batch can
be OUT_OF_ORDER_SEQUENCE_NUMBER once the ISR has grown, the client then bumps its epoch and sends all
batches that it believes lost, and the log cannot tell that they are the same (librdkafka,
`rd_kafka_handle_idempotent_Produce_error`; Apache Kafka's `Partition.appendRecordsToLeader` refuses
first and has this gap).
"""

from highwater.hop.append import AppendGroup, Failure
from highwater.hop.append_expiry import is_idempotent
from highwater.kafka.primitives import Buffer
from highwater.kafka.records.batch import BATCH_HEADER, HEADER_SIZE
from highwater.partition.core.producers import ProducerStates
from highwater.partition.core.sequences import last_sequence
from highwater.partition.data_plane.mixed_outcome import MixedOutcome


def known_batches(
    group: AppendGroup, states: ProducerStates, refusal: Failure
) -> MixedOutcome | None:
    """The group's outcome with the offsets of the batches that are in the log, and `refusal` for all
    others; None if none is in the log.
    """
    known = [_known(batch, states) for batch in group.batches]
    if max(offset for offset, _ in known) < 0:
        return None
    outcome = MixedOutcome([])
    for offset, timestamp in known:
        outcome.add(offset, refusal if offset < 0 else None, timestamp)
    return outcome


def _known(batch: Buffer, states: ProducerStates) -> tuple[int, int]:
    """(offset, largest timestamp) of the batch in the log; the offset is negative if it is not there."""
    if len(batch) < HEADER_SIZE or not is_idempotent(batch):
        return -1, -1
    *_, last_delta, _, _, producer_id, epoch, base_sequence, _ = BATCH_HEADER.unpack_from(batch)
    last = last_sequence(base_sequence, last_delta)
    offset = states.check(producer_id, epoch, base_sequence, last)
    return offset, states.known_at(producer_id, offset) if offset >= 0 else -1
