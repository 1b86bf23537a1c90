"""Whether a node kept its records: its registered incarnation is in the directories' lineage."""

from highwater.controller.core.tail_check import has_its_tail
from tests.support.controller_images import node_state


def test_the_registered_incarnation_must_be_in_the_lineage() -> None:
    before = node_state(1)
    assert has_its_tail(before, ("older", before.incarnation))
    assert has_its_tail(before, (before.incarnation, "never registered"))
    assert not has_its_tail(before, ("another",))
    assert not has_its_tail(before, ()), "an empty disk, a power cut, a failed write"
