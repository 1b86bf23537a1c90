"""Batches of a refused group that the log has, by what it knows of their producers."""

from highwater.hop.append import Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core.producers import ACCEPT, ProducerStates
from highwater.partition.core.sequences import SEQUENCE_MAX
from highwater.partition.data_plane.known_batches import known_batches
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import group_of

REFUSAL = Failure(ErrorCode.NOT_ENOUGH_REPLICAS)


def batch(sequence: int, *, records: int = 1, producer: int = 7, epoch: int = 0) -> bytearray:
    return make_batch(
        timestamps=(1000,) * records,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def states_after(*written: tuple[int, int]) -> ProducerStates:
    """Producer 7 wrote these batches (base sequence, records) at offsets from 40 on."""
    states, offset = ProducerStates(), 40
    for sequence, records in written:
        assert states.append(7, 0, sequence, records - 1, offset, 1000) == ACCEPT
        offset += records
    return states


def test_a_group_of_new_batches_has_none_that_is_known():
    new = group_of(batch(2), batch(0, producer=8), make_batch(), bytearray(9))
    assert known_batches(new, states_after((0, 2)), REFUSAL) is None


def test_known_batches_have_their_offsets_and_the_others_are_refused():
    states = states_after((0, 2), (2, 1))
    group = group_of(batch(2), make_batch(), batch(0, records=2), batch(3))
    outcome = known_batches(group, states, REFUSAL)
    assert outcome is not None
    assert outcome.base_offsets == [42, -1, 40, -1]
    assert outcome.failures == {1: REFUSAL, 3: REFUSAL}
    assert outcome.known_timestamps == {0: 1000, 2: 1000}


def test_a_batch_is_known_only_with_its_epoch_and_both_of_its_sequences():
    states = states_after((0, 2))
    for other in (batch(0), batch(1), batch(0, records=3), batch(0, records=2, epoch=1)):
        assert known_batches(group_of(other), states, REFUSAL) is None


def test_sequences_that_begin_again_at_zero_are_known():
    states = states_after((SEQUENCE_MAX, 2))
    outcome = known_batches(group_of(batch(SEQUENCE_MAX, records=2)), states, REFUSAL)
    assert outcome is not None
    assert (outcome.base_offsets, outcome.failures) == ([40], None)
