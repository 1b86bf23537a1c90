"""Members and topics as assignors see them, and what must hold for every assignment."""

from highwater.model.ids import TopicId
from highwater.partition.groups.consumer.assignors.types import (
    MemberSubscription,
    SubscribedTopic,
)


def topic_id(name):
    return TopicId(name.encode().rjust(16, b"\0"))


def topic(name, partitions, *racks):
    """`racks`: those of each partition's replicas, "a b" for two."""
    of_each = tuple(tuple(one.split()) for one in racks)
    return SubscribedTopic(topic_id(name), name, partitions, of_each)


def topics(*found):
    return {one.topic_id: one for one in found}


def member(member_id, *names, instance=None, rack=None):
    return MemberSubscription(member_id, instance, rack, frozenset(map(topic_id, names)))


def named(assignment):
    """{member: {topic's name: partitions}}"""
    return {
        member_id: {one.lstrip(b"\0").decode(): some for one, some in sorted(own.items())}
        for member_id, own in assignment.items()
    }


def by_id(**assignment):
    """The reverse of `named`, for a previous assignment."""
    return {
        member_id: {topic_id(name): some for name, some in own.items()}
        for member_id, own in assignment.items()
    }


def size(own):
    return sum(map(len, own.values()))


def owners_of(assignment):
    """{(topic, partition): member}; fails if a partition has two."""
    owners = {}
    for member_id, own in assignment.items():
        for one, partitions in own.items():
            assert list(partitions) == sorted(set(partitions))
            assert partitions, "a topic without partitions is left out"
            for partition in partitions:
                assert owners.setdefault((one, partition), member_id) == member_id
    return owners


def check(members, known, assignment):
    """Each partition that somebody reads has one owner, which reads it; no other has one."""
    reads = {one.member_id: one.topic_ids for one in members}
    assert assignment.keys() == reads.keys()
    owners = owners_of(assignment)
    assert owners.keys() == {
        (one.topic_id, partition)
        for one in known.values()
        if any(one.topic_id in read for read in reads.values())
        for partition in range(one.partitions)
    }
    assert all(one in reads[member_id] for (one, _), member_id in owners.items())
    return owners
