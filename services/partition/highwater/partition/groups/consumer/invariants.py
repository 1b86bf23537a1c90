"""What must hold of a consumer group after every step; tests check it."""

from collections import Counter

from highwater.partition.groups.consumer.assignment import overlap, pairs_of
from highwater.partition.groups.consumer.durable import ConsumerGroups
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import STATIC_LEAVE_EPOCH, MemberState


def check(groups: ConsumerGroups) -> None:
    """Raise AssertionError if an invariant is broken."""
    for group in groups.values():
        _check_epochs(group)
        _check_owners(group)
        statics = {
            m.metadata.instance_id: m.member_id
            for m in group.members.values()
            if m.metadata.instance_id is not None
        }
        assert group.static_members == statics
        assert group.targets.keys() <= group.members.keys(), "a target of a member that is gone"
        assert group.regexes.keys() <= group.regex_readers.keys()
        _check_counts(group)


def _check_counts(group: ConsumerGroup) -> None:
    metadata = [member.metadata for member in group.members.values()]
    assert group.topic_readers == Counter(name for one in metadata for name in one.topic_names)
    assert group.regex_readers == Counter(one.topic_regex for one in metadata if one.topic_regex)
    assert group.classic_count == sum(one.classic is not None for one in metadata)


def _check_epochs(group: ConsumerGroup) -> None:
    assert group.target_epoch <= group.epoch, "a target for an epoch that has not begun"
    for member in group.members.values():
        current = member.current
        assert current.epoch <= group.target_epoch, "a member is ahead of the target"
        assert current.epoch >= 0 or current.epoch == STATIC_LEAVE_EPOCH
        assert not overlap(current.assigned, current.revoking)
        if current.epoch != STATIC_LEAVE_EPOCH:
            is_revoking = current.state is MemberState.UNREVOKED_PARTITIONS
            assert bool(current.revoking) == is_revoking


def _check_owners(group: ConsumerGroup) -> None:
    owners: dict[tuple[bytes, int], str] = {}
    for member in group.members.values():
        for assignment in (member.current.assigned, member.current.revoking):
            for pair in pairs_of(assignment):
                assert pair not in owners, "a partition belongs to two members"
                owners[pair] = member.member_id
    assert group.owners == owners
