"""Eligible leaders and a minimum that moves (KIP-966)."""

from highwater.controller.core.change_min_isr import after_min_isr_change
from tests.unit.controller.core.test_election import partition


def test_a_lower_minimum_ends_eligibility() -> None:
    after = after_min_isr_change(partition(isr=(1,), eligible_leaders=(2,)), min_isr=1)
    assert (after.isr, after.eligible_leaders, after.partition_epoch) == ((1,), (), 8)
    assert after.leader_epoch == 5


def test_as_long_as_the_isr_is_too_small_it_stays() -> None:
    after = after_min_isr_change(partition(isr=(1,), eligible_leaders=(2,)), min_isr=3)
    assert after.eligible_leaders == (2,)
    assert after.partition_epoch == 8, "leaders learn of the minimum by a newer record"
