from dataclasses import replace

from highwater.partition.groups.consumer.member import NEW_ASSIGNMENT, MemberState


def test_a_member_is_reconciled_in_the_epoch_of_its_target() -> None:
    stable = replace(NEW_ASSIGNMENT, epoch=3)
    assert stable.is_reconciled_to(3)
    assert not stable.is_reconciled_to(4)
    assert not replace(stable, state=MemberState.UNRELEASED_PARTITIONS).is_reconciled_to(3)


def test_numbers_are_those_of_kafka_s_records() -> None:
    assert [int(state) for state in MemberState] == [0, 1, 2, 127]
