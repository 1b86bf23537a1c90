import pytest

from highwater.model.steps import finish
from highwater.partition.groups.consumer.assignors.pace import STEP_UNITS, Pace
from highwater.partition.groups.consumer.assignors.range import RangeAssignor
from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS
from highwater.partition.groups.consumer.assignors.uniform import UniformAssignor
from tests.unit.partition.groups.consumer.assignors.groups import member, topic, topics
from tests.unit.partition.groups.consumer.assignors.step_lines import lines_of_steps

LINES_MAX = 30 * STEP_UNITS
"""A unit is some lines of Python, in the slowest of all places about thirty."""


def test_a_step_ends_when_it_is_full():
    pace = Pace(3)
    assert [pace.is_full() for _ in range(7)] == [False, False, True, False, False, True, False]
    assert pace.is_full(100)
    assert not pace.is_full(2)


def test_one_step_is_enough_for_a_small_group():
    members = [member(f"m{one}", "a", "b") for one in range(10)]
    known = topics(topic("a", 30), topic("b", 30))
    for assignor in ASSIGNORS.values():
        assert list(assignor.assigning(members, known, {}, Pace())) == []


def a_group(count, names, *, mixed):
    return [
        member(f"m{one:04}", *(names[one % 10 :] if mixed else names), rack="xyz"[one % 3])
        for one in range(count)
    ]


@pytest.mark.parametrize("mixed", [False, True], ids=["alike", "mixed"])
@pytest.mark.parametrize("name", ASSIGNORS)
def test_no_step_of_a_large_group_is_long(name, mixed):
    """Counts lines of Python, not times: those of a busy machine tell nothing."""
    names = [f"t{one:02}" for one in range(20)]
    racks = [one for _ in range(200) for one in ("x", "y z", "")]
    known = topics(*(topic(one, 600, *racks) for one in names))
    assignor = ASSIGNORS[name]
    before = assignor.assign(a_group(100, names, mixed=mixed), known, {})
    members = a_group(1_000, names, mixed=mixed)
    steps = assignor.assigning(members, known, before, Pace())
    lines, found = lines_of_steps(steps)
    assert len(lines) > 10, "12 000 partitions are no small group"
    assert max(lines) <= LINES_MAX
    assert found == assignor.assign(members, known, before)


@pytest.mark.parametrize("assignor", [UniformAssignor(), RangeAssignor()], ids=["uniform", "range"])
def test_not_even_a_single_topic_is_done_in_one_step(assignor):
    members = [member(f"m{one}", "a") for one in range(500)]
    known = topics(topic("a", 20_000))
    alone = assignor.assign(members[:1], known, {})
    lines, found = lines_of_steps(assignor.assigning(members, known, alone, Pace()))
    assert max(lines) <= LINES_MAX
    assert found == finish(assignor.assigning(members, known, alone, Pace(1)))
