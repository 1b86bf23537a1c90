from __future__ import annotations

import pytest

from highwater.partition.groups.consumer import invariants
from highwater.partition.groups.consumer.assignment import NOTHING
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.consumer.member import CurrentAssignment, MemberMetadata
from tests.unit.partition.groups.consumer_dialogue import holding
from tests.unit.partition.groups.dialogue import key


def group() -> ConsumerGroup:
    made = ConsumerGroup()
    made.epoch = made.target_epoch = 1
    for member_id in "ab":
        made.set_metadata(member_id, MemberMetadata())
    made.set_current("a", CurrentAssignment(epoch=1, assigned=holding(t=(0,)), revoking=NOTHING))
    return made


def test_a_sound_group() -> None:
    invariants.check({key("g"): group()})


def test_a_partition_of_two_members() -> None:
    broken = group()
    broken.set_current("b", CurrentAssignment(epoch=1, assigned=holding(t=(0,)), revoking=NOTHING))
    with pytest.raises(AssertionError, match="belongs to two members"):
        invariants.check({key("g"): broken})


def test_a_member_that_is_ahead() -> None:
    broken = group()
    broken.set_current("b", CurrentAssignment(epoch=2, assigned=NOTHING, revoking=NOTHING))
    with pytest.raises(AssertionError, match="ahead of the target"):
        invariants.check({key("g"): broken})


def test_a_target_of_nobody() -> None:
    broken = group()
    broken.targets["x"] = NOTHING
    with pytest.raises(AssertionError, match="a member that is gone"):
        invariants.check({key("g"): broken})
