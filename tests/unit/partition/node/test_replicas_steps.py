"""An image is applied in steps; between two steps every replica is consistent."""

from dataclasses import replace
from itertools import pairwise

import pytest

from highwater.model.steps import finish
from highwater.partition.data_plane.replica import PartitionReplica
from tests.support.controller_images import image_with, topic_state
from tests.support.looked_at import longest_step
from tests.unit.partition.node.test_replicas_roles import Follower, moved

T = topic_state("t", [(1, 2)] * 6)


@pytest.fixture
def f(tmp_path):
    made = Follower(tmp_path)
    made.apply(T)
    return made


def all_moved():
    topic = T
    for number in range(6):
        topic = moved(topic, number, 2)
    return topic


def epochs(f):
    return [f.of(T, number).leader_epoch for number in range(6)]


def test_each_partition_is_updated_in_one_step(f):
    seen = []
    for _ in f.replicas.applying(image_with(3, topics=[all_moved()]), 1):
        for number in range(6):
            replica = f.of(T, number)
            assert (replica.leader_epoch, replica.leading) in ((5, True), (6, False))
        seen.append(epochs(f))
    assert [5] * 6 not in seen[1:]
    assert [6, 6, 6, 5, 5, 5] in seen, "the loop is left after each"
    assert epochs(f) == [6] * 6
    assert f.replicas.leader_count == 0


def test_partitions_whose_record_is_the_same_are_not_looked_at(f):
    looked_at = []
    apply_partition = f.replicas._apply_partition

    def noted(topic, state, node_id, min_isr):
        looked_at.append(state.partition)
        apply_partition(topic, state, node_id, min_isr)

    f.replicas._apply_partition = noted
    f.apply(moved(T, 4, 2))
    assert looked_at == [4]


def test_a_log_that_failed_to_open_is_tried_again_with_any_change_of_its_topic(f):
    wide = topic_state("t", [(1, 2)] * 7)
    grown = replace(T, partitions=(*T.partitions, wide.partitions[6]))
    f.logs.broken.add(6)
    f.apply(grown)
    assert f.here() == list(range(6))
    assert f.replicas.offline == {T.topic_id: [6]}
    f.logs.broken.clear()
    f.apply(moved(grown, 0, 2))
    assert f.here() == list(range(7))
    assert f.replicas.offline == {}


def test_damage_in_the_middle_of_an_image_is_judged_by_the_record_that_was_carried_out(f):
    """One replica already follows node 2, and another one still leads."""
    steps = f.replicas.applying(image_with(3, topics=[all_moved()]), 1)
    while epochs(f)[0] == 5:
        next(steps)
    follows, leads = f.of(T, 0), f.of(T, 5)
    assert (follows.leading, leads.leading) == (False, True)
    assert f.replicas.record_of(follows)[1].leader == 2
    assert f.replicas.record_of(leads)[1].leader == 1
    finish(steps)
    assert f.replicas.record_of(leads)[1].leader == 2


def test_a_replica_replaced_meanwhile_gets_no_fencing_event(f, monkeypatch):
    heard = []
    monkeypatch.setattr(
        PartitionReplica, "handle", lambda replica, _event: heard.append(replica.partition)
    )
    fenced = image_with(3, topics=[T], fenced=[3])
    steps = f.replicas.applying(fenced, 1)
    next(steps)
    assert heard == [0]
    del f.node.plane.replicas[T.topic_id, 4]
    finish(steps)
    assert heard == [0, 1, 2, 3, 5]


class Counted(dict):
    """Replicas of which somebody looks at all, and how many that were."""

    looked_at = 0

    def items(self):
        for key, replica in super().items():
            yield key, CountedReplica(self, replica)


class CountedReplica:
    def __init__(self, counted, replica):
        self.counted, self.replica = counted, replica
        self.leading = replica.leading

    @property
    def failed(self):
        self.counted.looked_at += 1
        return self.replica.failed


def test_a_step_of_a_count_looks_at_few_replicas(f, monkeypatch):
    monkeypatch.setattr("highwater.partition.node.replicas._STEP_COUNTED", 2)
    counted = f.node.plane.replicas = Counted(f.node.plane.replicas)
    _, longest = longest_step(f.replicas.counting(), lambda: counted.looked_at)
    assert counted.looked_at == 6
    assert longest == 2
    assert f.replicas.leader_count == 6


def test_a_failure_in_the_middle_of_a_count_is_counted(f, monkeypatch):
    monkeypatch.setattr("highwater.partition.node.replicas._STEP_COUNTED", 2)
    steps = f.replicas.counting()
    next(steps)
    f.of(T, 0).fail()
    f.replicas.count()
    assert f.replicas.offline == {T.topic_id: [0]}
    finish(steps)
    assert f.replicas.offline == {T.topic_id: [0]}


def test_who_leads_a_partition_is_known_as_soon_as_its_replica_is_gone(f):
    """Appends come between two steps, too."""
    gone = T
    for number in (0, 5):
        gone = moved(gone, number, 2, replicas=(2, 3))
    assert f.replicas.leader_of(T.topic_id, 0) == (1, 5)
    for _ in f.replicas.applying(image_with(3, topics=[gone]), 1):
        for number in (0, 5):
            left = number not in f.here()
            assert f.replicas.leader_of(T.topic_id, number) == ((2, 6) if left else (1, 5))
    assert f.replicas.leader_of(T.topic_id, 5) == (2, 6)
    f.apply()
    for number in (0, 6):
        assert f.replicas.leader_of(T.topic_id, number) == (-1, -1)


def test_a_deleted_topic_s_replicas_go_one_in_each_step(f):
    left = [len(f.here())]
    for _ in f.replicas.applying(image_with(3), 1):
        here = f.here()
        left.append(len(here))
        for number in range(6):
            there = number in here
            assert f.replicas.leader_of(T.topic_id, number) == ((1, 5) if there else (-1, -1))
            if there:
                assert f.replicas.record_of(f.of(T, number)) == (T, T.partitions[number])
    assert max(earlier - later for earlier, later in pairwise(left)) == 1
    assert f.here() == []
    assert f.replicas.leaders_by_instance() == {}
    assert ("deleted", "t") in f.roles.told


def test_a_topic_whose_deletion_was_interrupted_goes_with_the_next_image(f):
    """The watch was cancelled in the middle of an image, and has another one when it begins anew."""
    steps = f.replicas.applying(image_with(3), 1)
    while len(f.here()) > 3:
        next(steps)
    steps.close()
    other = topic_state("other", [(1,)])
    f.apply(other)
    assert list(f.node.plane.replicas) == [(other.topic_id, 0)]
    assert ("deleted", "t") in f.roles.told
    assert f.replicas.leader_of(T.topic_id, 0) == (-1, -1)
