"""Replicas follow the image: they are created, get roles, fail, and are removed."""

import shutil
from dataclasses import replace

import pytest

from highwater.model.ids import NO_NODE, TopicId
from highwater.model.steps import finish
from highwater.partition.core.replica_events import PartitionChanged
from highwater.partition.node.replicas import Replicas
from highwater.partition.node.topic_policy import TopicPolicies
from highwater.partition.storage.errors import StorageError
from highwater.runtime.logging import silent_logger
from tests.support.controller_images import image_with, topic_state
from tests.support.log_batches import append, make_batch
from tests.unit.hop.sinks import Sink, group_of
from tests.unit.partition.data_plane.node import Fetched, Node, ask


class Roles:
    def __init__(self):
        self.told = []

    def following(self, image):
        self.revision = image.revision

    def became_leader(self, topic, partition, leader_epoch):
        self.told.append(("leads", topic.name, partition, leader_epoch))

    def resigned(self, topic, partition):
        self.told.append(("resigned", topic.name, partition))

    def topics_deleted(self, topics):
        self.told.append(("deleted", *(topic.name for topic in topics)))


class Logs:
    """Real logs in the node's directory."""

    def __init__(self, node):
        self.node = node
        self.broken = set()
        self.deleted = []
        self.aside = []
        self.whole = []
        self.gone = []
        """Logs whose directory has failed."""

    def open_log(self, topic, partition):
        if partition in self.broken:
            raise StorageError("no")
        made = self.node.add(partition, lead=False)
        del self.node.plane.replicas[made.topic_id, partition]
        return made.log, 0

    def has_log(self, log):
        return log not in self.gone

    def delete_log(self, log):
        self.deleted.append(log.partition)
        log.close(clean=False)
        shutil.rmtree(log.directory)

    def set_damaged_aside(self, log):
        self.aside.append(log.partition)
        log.close(clean=False)
        shutil.move(log.directory, f"{log.directory}.aside-{len(self.aside)}")

    def remove_set_aside(self, topic, partition):
        self.whole.append((topic.name, partition))

    def set_broker_configs(self, configs):
        pass

    def reconfigure(self, log, topic):
        pass

    def flush(self, log, done):
        done()


class Follower:
    def __init__(self, directory):
        self.node = Node(directory)
        self.logs = Logs(self.node)
        self.roles = Roles()
        self.replicas = Replicas(
            plane=self.node.plane,
            logs=self.logs,
            policies=TopicPolicies({}),
            roles=self.roles,
            clock=self.node.clock,
            log=silent_logger(),
            on_log_failure=self.node._log_failed,
        )

    def apply(self, *topics):
        finish(self.replicas.applying(image_with(3, topics=topics), 1))

    def here(self):
        return sorted(partition for _, partition in self.node.plane.replicas)

    def of(self, topic, partition=0):
        return self.node.plane.replicas[topic.topic_id, partition]


@pytest.fixture
def f(tmp_path):
    return Follower(tmp_path)


T = topic_state("t", [(1, 2), (2, 1), (2, 3)])


def moved(topic, partition, leader, **changes):
    states = list(topic.partitions)
    states[partition] = replace(
        states[partition],
        leader=leader,
        leader_epoch=states[partition].leader_epoch + 1,
        partition_epoch=states[partition].partition_epoch + 1,
        **changes,
    )
    return replace(topic, partitions=tuple(states))


def test_replicas_are_made_and_get_their_roles(f):
    f.apply(T)
    assert f.here() == [0, 1]
    leader, follower = f.of(T, 0), f.of(T, 1)
    assert (leader.leading, leader.leader_epoch, leader.leader) == (True, 5, 1)
    assert (follower.leading, follower.leader_epoch, follower.leader) == (False, 5, 2)
    assert f.roles.told == [("leads", "t", 0, 5)]
    assert f.replicas.leader_count == 1
    assert f.replicas.leaders_by_instance() == {T.instance: [leader]}
    f.apply(T)
    assert len(f.roles.told) == 1, "the same image again changes nothing"


def test_leadership_comes_and_goes_with_the_epochs(f):
    f.apply(T)
    lost = moved(T, 0, 2)
    fetched = Fetched((ask(0, topic_id=T.topic_id),))
    f.node.plane.fetch(fetched.work)
    f.apply(lost)
    assert fetched.codes == [6]
    back = moved(lost, 0, 1)
    f.apply(back)
    same_leader = moved(back, 0, 1)
    f.apply(same_leader)
    assert f.roles.told == [
        ("leads", "t", 0, 5),
        ("resigned", "t", 0),
        ("leads", "t", 0, 7),
        ("leads", "t", 0, 8),
    ]
    sink = Sink()
    f.node.plane.append([group_of(make_batch(), sink=sink, topic_id=T.topic_id, epoch=7)])
    failure = sink.results[0][2]
    assert (failure.leader, failure.leader_epoch) == (1, 8)


def test_no_leader(f):
    f.apply(T)
    f.apply(moved(T, 0, NO_NODE))
    assert not f.of(T).leading
    assert f.roles.told[-1] == ("resigned", "t", 0)


def test_a_replica_that_moves_away_and_a_topic_that_is_deleted(f):
    f.apply(T)
    f.apply(moved(T, 0, 2, replicas=(2, 3)))
    assert f.here() == [1]
    assert f.logs.deleted == [0]
    assert f.roles.told[-1] == ("resigned", "t", 0)
    waiting = Fetched((ask(0, 1, topic_id=T.topic_id),))
    f.node.plane.fetch(waiting.work)
    f.apply()
    assert f.here() == []
    assert f.logs.deleted == [0, 1]
    assert waiting.codes == [6]
    assert f.node.plane.waiting_fetches == 0
    assert f.roles.told[-1] == ("deleted", "t"), "also those of which nothing is here any more"


def test_a_topic_that_is_made_anew_under_its_name_was_deleted_before(f):
    elsewhere = topic_state("u", [(2,)])
    f.apply(T, elsewhere)
    anew = replace(elsewhere, topic_id=TopicId(bytes(15) + b"u"))
    f.apply(T, anew)
    assert f.roles.told[1:] == [("deleted", "u")]
    f.apply(T, anew)
    assert len(f.roles.told) == 2


def test_more_partitions(f):
    f.apply(T)
    f.apply(topic_state("t", [(1, 2), (2, 1), (2, 3), (1,)]))
    assert f.here() == [0, 1, 3]
    assert f.roles.told == [("leads", "t", 0, 5), ("leads", "t", 3, 5)]


def test_an_unusable_log_is_noted_and_tried_again_when_the_topic_changes(f):
    f.logs.broken = {0}
    f.apply(T)
    assert f.here() == [1]
    assert f.replicas.unusable == {(T.topic_id, 0)}
    f.logs.broken = set()
    f.apply(moved(T, 1, 1))
    assert f.here() == [0, 1]
    assert f.replicas.unusable == set()


def test_an_unusable_log_is_forgotten_with_its_topic(f):
    f.logs.broken = {0, 1}
    f.apply(T)
    f.apply(moved(T, 0, 2, replicas=(2, 3)))
    assert f.replicas.unusable == {(T.topic_id, 1)}
    f.apply()
    assert f.replicas.unusable == set()


def test_a_broken_leader_stays_broken_and_resigns_when_another_leads(f):
    f.apply(T)
    f.of(T).fail()
    f.apply(moved(T, 1, 1))
    assert ("resigned", "t", 0) not in f.roles.told
    lost = moved(moved(T, 1, 1), 0, 2)
    f.apply(lost)
    assert f.roles.told.count(("resigned", "t", 0)) == 1
    f.apply(moved(lost, 0, 1))
    assert not f.of(T).leading
    f.apply()
    assert f.roles.told.count(("resigned", "t", 0)) == 1


def test_unusable_replicas_are_reported_to_the_controller(f):
    f.logs.broken.add(1)
    f.apply(T)
    assert f.replicas.offline == {T.topic_id: [1]}
    assert f.replicas.leader_count == 1
    before = f.replicas.offline
    f.of(T, 0).fail()
    f.replicas.count()
    assert f.replicas.offline == {T.topic_id: [0, 1]}
    assert f.replicas.leader_count == 0
    assert before == {T.topic_id: [1]}, "another thread may be reading it"
    f.apply()
    assert f.replicas.offline == {}


def test_a_replica_with_damaged_records_is_fetched_again(f):
    """It is offline at once, and replaced when the image has it outside the ISR."""
    f.apply(T)
    leader = f.of(T, 0)
    append(leader.log, make_batch(), make_batch(), epoch=5)
    leader.log.lost.add(0, 1)
    assert not f.replicas.step_back(leader, set()), "nobody has proven that it lives"
    assert not f.replicas.step_back(leader, {1, 3}), "nor one that is in sync"
    assert leader.leading
    assert f.replicas.step_back(leader, {2})
    f.replicas.count()
    assert f.replicas.offline == {T.topic_id: [0]}
    assert leader.failed
    f.apply(replace(T, configs={"retention.ms": "5"}))
    assert f.of(T, 0) is leader, "the controller does not know it yet"
    led_by_other = moved(T, 0, 2, isr=(2, 1))
    f.apply(led_by_other)
    assert f.of(T, 0) is leader, "it still counts as one that has everything"
    states = list(led_by_other.partitions)
    states[0] = replace(states[0], isr=(2,), partition_epoch=states[0].partition_epoch + 1)
    f.apply(replace(led_by_other, partitions=tuple(states)))
    again = f.of(T, 0)
    assert again is not leader
    assert (f.logs.aside, f.logs.deleted) == ([0], []), "it is kept until the new one is in sync"
    assert (again.failed, again.leader, again.leading) == (False, 2, False)
    assert f.replicas.offline == {}
    assert (T.name, 0) not in f.logs.whole[-1:]
    f.logs.whole.clear()
    states[0] = replace(states[0], isr=(2, 1), partition_epoch=states[0].partition_epoch + 2)
    f.apply(replace(led_by_other, partitions=tuple(states)))
    assert (T.name, 0) in f.logs.whole


@pytest.mark.parametrize("isr", [(1,), (2,), ()])
def test_a_replica_goes_on_if_no_other_replica_leads(f, isr):
    """In a stale image: the other replica has died meanwhile, or is no longer in sync."""
    f.apply(T)
    leader = f.of(T, 0)
    append(leader.log, make_batch(), make_batch(), epoch=5)
    leader.log.lost.add(0, 1)
    assert f.replicas.step_back(leader, {2})
    nobody = moved(T, 0, -1, isr=isr)
    f.apply(nobody)
    again = f.of(T, 0)
    assert (again.log, again.failed, again.core.log_end_offset) == (leader.log, False, 2)
    assert (f.logs.aside, f.logs.deleted, f.replicas.offline) == ([], [], {})
    f.apply(moved(nobody, 0, 1, isr=(1,)))
    assert f.of(T, 0) is again
    assert again.leading


def test_damaged_records_without_another_copy_are_kept(f):
    alone = topic_state("t", [(1, 2)])
    alone = replace(alone, partitions=(replace(alone.partitions[0], isr=(1,)),))
    f.apply(alone)
    replica = f.of(alone, 0)
    append(replica.log, make_batch(), make_batch(), make_batch(), epoch=5)
    replica.log.lost.add(1, 2)
    assert not f.replicas.step_back(replica, {2})
    assert replica.leading
    assert not replica.failed
    states = (
        replace(
            alone.partitions[0],
            isr=(1, 2),
            partition_epoch=alone.partitions[0].partition_epoch + 1,
        ),
    )
    f.apply(replace(alone, partitions=states))
    assert not replica.failed
    assert f.replicas.step_back(replica, {2}), "now somebody has them"
    f.replicas.count()
    assert f.replicas.offline == {alone.topic_id: [0]}


def test_a_damaged_replica_outside_the_isr_catches_up_before_it_is_replaced(f):
    """If it failed now, the image would not change, and it would never be replaced."""
    behind = topic_state("t", [(2, 1)])
    behind = replace(behind, partitions=(replace(behind.partitions[0], isr=(2,)),))
    f.apply(behind)
    replica = f.of(behind)
    append(replica.log, make_batch(), make_batch(), epoch=5)
    replica.log.lost.add(0, 1)
    assert not f.replicas.step_back(replica, {2})
    f.apply(replace(behind, configs={"retention.ms": "5"}))
    assert not replica.failed
    joined = replace(
        behind.partitions[0],
        isr=(2, 1),
        partition_epoch=behind.partitions[0].partition_epoch + 1,
    )
    f.apply(replace(behind, partitions=(joined,)))
    assert f.replicas.step_back(replica, {2})
    f.replicas.count()
    assert f.replicas.offline == {behind.topic_id: [0]}
    f.apply(moved(replace(behind, partitions=(joined,)), 0, 2, isr=(2,)))
    assert f.of(behind) is not replica
    assert f.logs.aside == [0]
    assert f.replicas.offline == {}


def behind_of(f, **changes):
    """Node 2 leads t-0, and this node's replica is outside the ISR."""
    behind = topic_state("t", [(2, 1)])
    behind = replace(behind, partitions=(replace(behind.partitions[0], isr=(2,), **changes),))
    f.apply(behind)
    replica = f.of(behind)
    append(replica.log, make_batch(), make_batch(), epoch=5)
    return behind, replica


def in_epoch(topic, more, **changes):
    (state,) = topic.partitions
    state = replace(
        state,
        leader_epoch=state.leader_epoch + more,
        partition_epoch=state.partition_epoch + 1,
        **changes,
    )
    return replace(topic, partitions=(state,))


def test_an_untruncatable_follower_outside_the_isr_is_replaced_at_once(f):
    behind, replica = behind_of(f)
    replica.fail()
    assert f.replicas.replace_uncut_log(replica)
    again = f.of(behind)
    assert again is not replica
    assert f.logs.aside == [0]
    assert (again.failed, again.leader, again.leader_epoch) == (False, 2, replica.leader_epoch)
    assert (again.log.log_end_offset, again.core.log_end_offset) == (0, 0)
    f.replicas.count()
    assert f.replicas.offline == {}


@pytest.mark.parametrize("counts", [{"isr": (2, 1)}, {"eligible_leaders": (1,)}])
def test_an_untruncatable_follower_leaves_the_isr_before_it_is_replaced(f, counts):
    behind, replica = behind_of(f)
    counted = in_epoch(behind, 1, **counts)
    f.apply(counted)
    replica.fail()
    assert f.replicas.replace_uncut_log(replica)
    assert f.of(behind) is replica
    f.apply(replace(counted, configs={"retention.ms": "5"}))
    assert f.of(behind) is replica, "the controller does not know it yet"
    f.apply(in_epoch(counted, 1, isr=(2,), eligible_leaders=()))
    assert f.of(behind) is not replica


def test_a_follower_ahead_of_the_image_is_not_replaced_at_once(f):
    """The image's ISR belongs to an earlier epoch."""
    behind, replica = behind_of(f)
    replica.handle(
        PartitionChanged(
            now_ms=0,
            leader=2,
            leader_epoch=replica.leader_epoch + 1,
            partition_epoch=replica.core.isr.partition_epoch + 1,
            replicas=(2, 1),
            isr=(2, 1),
            min_isr=1,
        )
    )
    replica.fail()
    assert not f.replicas.replace_uncut_log(replica)
    assert f.of(behind) is replica
    f.apply(in_epoch(behind, 1, isr=(2,)))
    assert f.of(behind) is replica
    f.apply(in_epoch(behind, 2, isr=(2,)))
    assert f.of(behind) is not replica


def test_a_log_that_has_failed_for_its_damage_is_fetched_again(f):
    """The damage was not found by a read: the replica is offline already."""
    f.apply(T)
    leader = f.of(T, 0)
    leader.fail()
    assert f.replicas.step_back(leader, {2})
    assert f.replicas.step_back(leader, {2}), "as before"
    led_by_other = moved(T, 0, 2, isr=(2,))
    f.apply(led_by_other)
    assert f.of(T, 0) is not leader
    assert f.logs.aside == [0]


def test_a_follower_failed_by_damage_is_replaced_in_the_next_leader_epoch(f):
    """Not in this epoch: the leader may be adding it to the ISR because of its fetches."""
    behind, replica = behind_of(f)
    replica.fail()
    assert not f.replicas.step_back(replica, {2})
    f.apply(replace(behind, configs={"retention.ms": "5"}))
    joined = in_epoch(behind, 0, isr=(2, 1))
    f.apply(joined)
    f.apply(in_epoch(joined, 0, isr=(2,)))
    assert f.of(behind) is replica
    f.apply(in_epoch(joined, 1, isr=(2,)))
    assert f.of(behind) is not replica
    assert f.replicas.offline == {}


def test_a_damaged_replica_removed_from_the_isr_keeps_its_log_in_that_epoch(f):
    """In the same leader epoch, a late fetch of the damaged log could count for a new one."""
    joined = topic_state("t", [(2, 1)])
    f.apply(joined)
    replica = f.of(joined)
    append(replica.log, make_batch(), make_batch(), epoch=5)
    replica.log.lost.add(0, 1)
    assert f.replicas.step_back(replica, {2})
    before = joined.partitions[0]
    lagged = replace(before, isr=(2,), partition_epoch=before.partition_epoch + 1)
    f.apply(replace(joined, partitions=(lagged,)))
    follower = f.of(joined)
    assert f.logs.deleted == []
    assert (follower.log, follower.failed, follower.leader) == (replica.log, False, 2)
    assert follower.core.log_end_offset == 2, "it has what its last fetch said"
    assert f.replicas.offline == {}
    caught_up = replace(lagged, isr=(2, 1), partition_epoch=lagged.partition_epoch + 1)
    joined = replace(joined, partitions=(caught_up,))
    f.apply(joined)
    assert not follower.failed
    assert f.replicas.step_back(follower, {2}), "now the controller will have to do it"
    f.replicas.count()
    assert f.replicas.offline == {joined.topic_id: [0]}
    f.apply(moved(joined, 0, 2, isr=(2,)))
    assert f.logs.aside == [0]
    assert f.of(joined).log is not replica.log


@pytest.mark.parametrize("cause", ["its directory has failed", "it is being written"])
def test_a_log_that_cannot_be_used_any_more_stays_offline_until_the_next_epoch(f, cause):
    joined = topic_state("t", [(2, 1)])
    f.apply(joined)
    replica = f.of(joined)
    append(replica.log, make_batch(), epoch=5)
    assert f.replicas.step_back(replica, {2})
    if cause == "it is being written":
        replica.log.late_writer.writing = True
    else:
        f.logs.gone.append(replica.log)
    lagged = in_epoch(joined, 0, isr=(2,))
    f.apply(lagged)
    assert f.of(joined) is replica
    assert f.replicas.offline == {joined.topic_id: [0]}
    replica.log.late_writer.writing = False
    f.apply(in_epoch(lagged, 1, isr=(2,)))
    assert f.of(joined) is not replica
    assert f.replicas.offline == {}
