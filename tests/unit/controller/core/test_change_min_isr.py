"""Eligible leaders when min.insync.replicas changes (KIP-966)."""

from highwater.controller.core.change_min_isr import (
    after_min_isr_change,
    topic_after_min_isr_change,
)
from tests.support.controller_images import topic_state
from tests.unit.controller.core.test_election import partition


def test_a_lower_minimum_ends_eligibility() -> None:
    after = after_min_isr_change(partition(isr=(1,), eligible_leaders=(2,)), min_isr=1)
    assert (after.isr, after.eligible_leaders, after.partition_epoch) == ((1,), (), 8)
    assert after.leader_epoch == 5


def test_eligibility_stays_while_the_isr_is_too_small() -> None:
    after = after_min_isr_change(partition(isr=(1,), eligible_leaders=(2,)), min_isr=3)
    assert after.eligible_leaders == (2,)
    assert after.partition_epoch == 8, "leaders learn of the minimum by a newer record"


def test_all_partitions_of_the_topic_that_have_so_many_replicas() -> None:
    topic = topic_state("t", [(1, 2, 3), (1, 2), (1,)])
    after = topic_after_min_isr_change(topic, before=1, after=2)
    assert [p.partition_epoch for p in after.partitions] == [8, 8, 7]
    after = topic_after_min_isr_change(topic, before=2, after=3)
    assert [p.partition_epoch for p in after.partitions] == [8, 7, 7], "2 of 2 is all there is"


def test_an_equivalent_minimum_changes_nothing() -> None:
    topic = topic_state("t", [(1, 2)])
    assert topic_after_min_isr_change(topic, before=2, after=9) is topic
    assert topic_after_min_isr_change(topic, before=1, after=1) is topic
