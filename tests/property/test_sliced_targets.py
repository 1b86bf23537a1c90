"""Target assignments in slices, over random histories of a consumer group (KIP-848).

Whatever is cut into pieces has the same result as in one go. If the group changes between pieces,
invariants hold after every request, and the group ends up with everything assigned.
"""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.kafka.error_codes import ErrorCode
from highwater.model.steps import finish
from highwater.partition.groups.consumer.assignors.pace import Pace
from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS
from tests.property.test_assignors import some_members, some_topics
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk, settle
from tests.unit.partition.groups.dialogue import NO_DELAY
from tests.unit.partition.groups.topics import FakeTopics

TOPICS = ("t", "u", "v")
MEMBERS = st.integers(0, 4)
LONG_MS = 3_000
"""Long enough for a computation of one unit a step, and shorter than a session."""
IN_ONE_GO = 10**9

JOIN = st.tuples(
    st.just("join"),
    MEMBERS,
    st.sets(st.sampled_from(TOPICS), min_size=1),
    st.booleans(),
)
"""A static member comes with another member id every time."""
LEAVE = st.tuples(st.just("leave"), MEMBERS)
GONE_FOR_A_WHILE = st.tuples(st.just("away"), MEMBERS)
GROW = st.tuples(st.just("grow"), st.sampled_from(TOPICS), st.integers(1, 3))
BEAT = st.tuples(st.just("beat"), MEMBERS)
OPERATIONS = st.one_of(JOIN, JOIN, LEAVE, GONE_FOR_A_WHILE, GROW, BEAT)


class History:
    """One group whose members do what they are told."""

    def __init__(self, step_units, assignor):
        config = replace(NO_DELAY, assignment_step_units=step_units)
        self.talk = Talk(config=config, topics=FakeTopics(t=4, u=3, v=1))
        self.sizes = {"t": 4, "u": 3, "v": 1}
        self.assignor = assignor
        self.members = {}
        self.count = 0

    def do(self, operation):
        kind, what, *more = operation
        getattr(self, kind)(what, *more)

    def join(self, number, topics, static):
        old = self.members.pop(number, None)
        fields = {"instance_id": f"i{number}"} if static else {}
        if old is not None:
            old.leave(-2 if static and old.instance_id else -1)
        self.count += 1
        member = Consumer(
            self.talk, f"m{number}-{self.count}", *sorted(topics), assignor=self.assignor, **fields
        )
        self.members[number] = member
        assert member.join().error is ErrorCode.NONE

    def leave(self, number):
        member = self.members.pop(number, None)
        if member is not None:
            member.leave()

    def away(self, number):
        """A static member is replaced by its next incarnation, which reads the same."""
        member = self.members.get(number)
        if member is not None and member.instance_id is not None:
            self.join(number, member.fields["topic_names"], static=True)

    def grow(self, topic, more):
        self.sizes[topic] += more
        self.talk.topics.set(topic, self.sizes[topic])
        self.talk.topics_change()

    def beat(self, number):
        if number in self.members:
            assert self.members[number].beat().error is ErrorCode.NONE

    def come_to_rest(self):
        for _ in range(6):
            settle(self.members.values(), 1)
            self.talk.wait(LONG_MS)

    def targets(self):
        group = self.talk.shard.durable.consumer_groups.get(next(iter(self._keys()), None))
        return {} if group is None else dict(group.targets)

    def _keys(self):
        return list(self.talk.shard.durable.consumer_groups)

    def owned(self):
        """{(topic, partition): member}, as members themselves say."""
        owners = {}
        for member in self.members.values():
            for topic_id, partitions in member.held.items():
                for partition in partitions:
                    assert owners.setdefault((topic_id, partition), member.id) == member.id
        return owners


@given(
    operations=st.lists(OPERATIONS, max_size=8),
    step_units=st.integers(1, 30),
    assignor=st.sampled_from(list(ASSIGNORS)),
)
@settings(max_examples=100, deadline=None)
def test_what_is_not_disturbed_ends_as_in_one_go(operations, step_units, assignor):
    sliced, whole = History(step_units, assignor), History(IN_ONE_GO, assignor)
    for operation in operations:
        for history in (sliced, whole):
            history.do(operation)
            history.talk.wait(LONG_MS)
            settle(history.members.values(), 1)
            history.talk.wait(LONG_MS)
        assert sliced.targets() == whole.targets()
    for history in (sliced, whole):
        history.come_to_rest()
    assert sliced.owned() == whole.owned()


@given(
    operations=st.lists(st.tuples(OPERATIONS, st.integers(0, 12)), max_size=16),
    step_units=st.integers(1, 30),
    assignor=st.sampled_from(list(ASSIGNORS)),
)
@settings(max_examples=150, deadline=None)
def test_whatever_changes_between_slices_all_is_assigned_in_the_end(
    operations, step_units, assignor
):
    history = History(step_units, assignor)
    for operation, ms in operations:
        history.do(operation)
        history.talk.wait(ms)
    history.come_to_rest()
    read = {name for one in history.members.values() for name in one.fields["topic_names"]}
    assert {(t[:1].decode(), p) for t, p in history.owned()} == {
        (name, p) for name in read for p in range(history.sizes[name])
    }
    for group in history.talk.shard.durable.consumer_groups.values():
        assert not group.members or group.target_epoch == group.epoch
        for member in group.members.values():
            assert member.current.is_reconciled_to(group.epoch)


@given(
    first=some_members(),
    second=some_members(),
    known=some_topics(),
    step_units=st.integers(1, 30),
    assignor=st.sampled_from(list(ASSIGNORS.values())),
)
@settings(max_examples=200, deadline=None)
def test_assignors_give_the_same_in_any_pieces(first, second, known, step_units, assignor):
    previous = assignor.assign(first, known, {})
    whole = finish(assignor.assigning(second, known, previous, Pace(IN_ONE_GO)))
    assert finish(assignor.assigning(second, known, previous, Pace(step_units))) == whole
