"""Assignments of the consumer group protocol (KIP-848), over random groups and their histories."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.partition.groups.consumer.assignors.registry import ASSIGNORS
from tests.unit.partition.groups.consumer.assignors.groups import (
    check,
    member,
    owners_of,
    size,
    topic,
    topics,
)

NAMES = ["t1", "t2", "t3", "t4"]
RACKS = st.sampled_from(["a", "b", "c"])
UNIFORM, RANGE = ASSIGNORS["uniform"], ASSIGNORS["range"]


@st.composite
def some_topics(draw, names=NAMES):
    found = []
    for name in names:
        partitions = draw(st.integers(0, 12))
        racked = draw(st.booleans())
        racks = [" ".join(draw(st.sets(RACKS))) for _ in range(partitions)] if racked else []
        found.append(topic(name, partitions, *racks))
    return topics(*found)


@st.composite
def some_members(draw, *, alike=False, low=1, high=8):
    ids = draw(st.sets(st.integers(0, 20), min_size=low, max_size=high))
    subscriptions = st.sets(st.sampled_from([*NAMES, "gone"]), max_size=4)
    same = draw(subscriptions) if alike else None
    return [
        member(
            f"m{one:02}",
            *(draw(subscriptions) if same is None else same),
            instance=f"i{-one % 7:02}-{one}" if draw(st.booleans()) else None,
            rack=draw(st.none() | RACKS),
        )
        for one in ids
    ]


@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS)
@given(data=st.data(), first=some_members(), second=some_members(), before=some_topics())
@settings(max_examples=200, deadline=None)
def test_each_partition_has_one_owner_and_order_does_not_matter(
    assignor, data, first, second, before
):
    previous = assignor.assign(first, before, {})
    check(first, before, previous)
    after = data.draw(some_topics(data.draw(st.permutations(NAMES))))
    found = assignor.assign(second, after, previous)
    check(second, after, found)
    shuffled = data.draw(st.permutations(second))
    assert assignor.assign(shuffled, dict(reversed(after.items())), previous) == found


@given(members=some_members(alike=True), later=some_members(alike=True), known=some_topics())
@settings(max_examples=300, deadline=None)
def test_uniform_alike_is_balanced_and_keeps_all_that_it_can(members, later, known):
    previous = UNIFORM.assign(members, known, {})
    found = UNIFORM.assign(later, known, previous)
    sizes = [size(own) for own in found.values()]
    assert max(sizes) - min(sizes) <= 1
    before, after = owners_of(previous), check(later, known, found)
    could_keep = [
        sum(
            after.get(one) is not None and owner == member.member_id
            for one, owner in before.items()
        )
        for member in later
    ]
    base, extra = divmod(len(after), len(later))
    expected = sum(min(base, count) for count in could_keep)
    expected += min(extra, sum(count > base for count in could_keep))
    assert sum(after[one] == before.get(one) for one in after) == expected
    assert UNIFORM.assign(later, known, found) == found


@given(members=some_members(alike=True, low=2), known=some_topics(), data=st.data())
@settings(max_examples=200, deadline=None)
def test_uniform_alike_moves_only_what_comes_and_goes_with_a_member(members, known, data):
    one = data.draw(st.sampled_from(members))
    others = [other for other in members if other is not one]
    with_it = UNIFORM.assign(members, known, {})
    without = UNIFORM.assign(others, known, with_it)
    again = UNIFORM.assign(members, known, without)
    owned, left, back = owners_of(with_it), owners_of(without), owners_of(again)
    assert all(left[key] == owner for key, owner in owned.items() if owner != one.member_id)
    assert all(back[key] in (owner, one.member_id) for key, owner in left.items())


@given(members=some_members(), later=some_members(), known=some_topics())
@settings(max_examples=300, deadline=None)
def test_uniform_mixed_leaves_no_partition_that_balances_better(members, later, known):
    found = UNIFORM.assign(later, known, UNIFORM.assign(members, known, {}))
    sizes = {member_id: size(own) for member_id, own in found.items()}
    for (one, _), owner in owners_of(found).items():
        readers = [member.member_id for member in later if one in member.topic_ids]
        assert sizes[owner] - min(sizes[reader] for reader in readers) <= 1
    assert UNIFORM.assign(later, known, found) == found, "nothing moves without a reason"


@given(members=some_members(alike=True), known=some_topics(), seen=some_topics())
@settings(max_examples=200, deadline=None)
def test_racks_change_neither_balance_nor_what_is_kept(members, known, seen):
    bare = topics(*(topic(one.name, one.partitions) for one in known.values()))
    previous = UNIFORM.assign(members[1:], seen, {})
    with_racks = owners_of(UNIFORM.assign(members, known, previous))
    without = owners_of(UNIFORM.assign(members, bare, previous))
    before = owners_of(previous)

    def kept(owners):
        return sum(before.get(one) == owner for one, owner in owners.items())

    def sizes(owners):
        return sorted(list(owners.values()).count(one.member_id) for one in members)

    assert (kept(with_racks), sizes(with_racks)) == (kept(without), sizes(without))


@given(members=some_members(), known=some_topics())
@settings(max_examples=200, deadline=None)
def test_range_gives_ranges_in_the_order_of_members(members, known):
    found = RANGE.assign(members, known, {})
    order = sorted(
        members, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id)
    )
    for one in known.values():
        readers = [member for member in order if one.topic_id in member.topic_ids]
        given_out = [found[reader.member_id].get(one.topic_id, ()) for reader in readers]
        if readers:
            assert [p for some in given_out for p in some] == list(range(one.partitions))
            counts = [len(some) for some in given_out]
            assert counts == sorted(counts, reverse=True)
            assert max(counts) - min(counts) <= 1
