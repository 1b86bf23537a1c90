"""What comes without a batch that was refused is found out, whatever the log knows."""

import pytest

from highwater.partition.core.producers import ProducerStates
from highwater.partition.core.sequences import SEQUENCE_MAX
from highwater.partition.data_plane import refused_producers
from highwater.partition.data_plane.refused_producers import REMEMBERED_MS, RefusedProducers
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import group_of


def group(*sequences, producer=7, epoch=0, partition=0):
    return group_of(
        *(
            make_batch(producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
            for sequence in sequences
        ),
        partition=partition,
    )


class AtTimes(RefusedProducers):
    """The test says what time it is."""

    def __init__(self):
        self.now_ms = 0
        super().__init__(lambda: self.now_ms)

    def note(self, one, known, now_ms):
        self.now_ms = now_ms
        super().note(one, known)

    def places(self, one, known, now_ms):
        self.now_ms = now_ms
        return super().places(one, known)

    def forget(self, now_ms):
        self.now_ms = now_ms
        super().forget()


@pytest.fixture
def refused():
    made = AtTimes()
    made.note(group(5), None, 0)
    return made


def test_what_follows_may_not_come_until_the_lost_one_does(refused):
    assert refused.places(group(6, 7), None, 1) == [0, 1]
    assert refused.places(group(5, 6), None, 1) == []
    assert refused.places(group(7), None, 1) == [], "it is forgotten"
    assert not refused


def test_the_first_that_was_lost_counts(refused):
    refused.note(group(7, 4, 6), None, 0)
    assert refused.places(group(5), None, 1) == [0]
    assert refused.places(group(3), None, 1) == [], "it came before"
    assert refused.places(group(4, 5), None, 1) == []


def test_sequences_go_on_at_zero_after_the_largest():
    refused = AtTimes()
    refused.note(group(0), None, 0)
    refused.note(group(SEQUENCE_MAX), None, 0)
    assert refused.places(group(0), None, 1) == [0]
    assert refused.places(group(SEQUENCE_MAX - 1), None, 1) == []
    assert refused.places(group(SEQUENCE_MAX, 0), None, 1) == []


def test_another_producer_partition_or_newer_epoch_may_come(refused):
    assert refused.places(group(6, producer=8), None, 1) == []
    assert refused.places(group(6, partition=1), None, 1) == []
    assert refused.places(group(6, epoch=-1), None, 1) == [], "the log refuses it"
    assert len(refused) == 1
    assert refused.places(group(6, epoch=1), None, 1) == []
    assert not refused


def test_an_older_epoch_is_not_noted_and_a_newer_one_is():
    refused = AtTimes()
    refused.note(group(5, epoch=1), None, 0)
    refused.note(group(9, epoch=0), None, 0)
    assert refused.places(group(6, epoch=1), None, 1) == [0]
    refused.note(group(0, epoch=2), None, 0)
    assert refused.places(group(1, epoch=2), None, 1) == [0]


def test_the_log_knows_better():
    known = ProducerStates()
    assert known.append(7, 0, 5, 0, 0, 0) == -1
    refused = AtTimes()
    refused.note(group(5), known, 0)
    assert not refused, "it is in the log, and was refused to nobody"
    refused.note(group(6), known, 0)
    assert refused.places(group(7), known, 1) == [0], "it is not told that it is out of sequence"
    assert refused.places(group(5), known, 1) == [], "a copy of what the log has"
    assert known.append(7, 0, 6, 0, 1, 0) == -1
    assert refused.places(group(7), known, 1) == [], "the lost one has come another way"
    assert not refused


def test_batches_without_sequences_are_never_held_up(refused):
    for one in (make_batch(), bytearray(3)):
        refused.note(group_of(one), None, 0)
        assert refused.places(group_of(one), None, 1) == []
    assert len(refused) == 1


def test_it_is_forgotten_in_time(refused):
    refused.note(group(1, producer=8), None, 10)
    assert refused.places(group(6), None, REMEMBERED_MS - 1) == [0]
    assert refused.places(group(6), None, REMEMBERED_MS) == []
    refused.note(group(5), None, 20)
    refused.forget(REMEMBERED_MS + 10)
    assert len(refused) == 1
    refused.forget(REMEMBERED_MS + 20)
    assert not refused


def test_producers_are_limited(refused, monkeypatch):
    monkeypatch.setattr(refused_producers, "PRODUCERS_MAX", 2)
    for producer in (8, 9):
        refused.note(group(5, producer=producer), None, 0)
    held = [bool(refused.places(group(6, producer=one), None, 1)) for one in (7, 8, 9)]
    assert held == [False, True, True]
