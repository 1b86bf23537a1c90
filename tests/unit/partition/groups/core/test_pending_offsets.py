from hypothesis import given
from hypothesis import strategies as st

from highwater.model.ids import DEFAULT_INSTANCE
from highwater.partition.coordinator.core.values import Producer
from highwater.partition.groups.core.pending_offsets import PendingOffsets
from highwater.partition.groups.core.values import GroupKey

G, H = GroupKey(DEFAULT_INSTANCE, "g"), GroupKey(DEFAULT_INSTANCE, "h")
T0, T1 = ("t", 0), ("t", 1)


def test_a_transaction_from_its_first_offset_to_its_end():
    pending = PendingOffsets()
    pending.set(Producer(1, 0), G, T0, "a")
    pending.set(Producer(1, 0), G, T0, "b")
    pending.set(Producer(1, 0), H, T1, "c")
    pending.set(Producer(2, 5), G, T1, "d")
    assert len(pending) == pending.counts[DEFAULT_INSTANCE] == 3
    assert pending.is_set(1, G, T0)
    assert not pending.is_set(1, G, T1)
    assert not pending.is_set(3, G, T0)
    assert pending.groups_of(1) == {G, H}
    assert pending.slots(G) == [T0, T1]
    assert pending.is_unstable(H, T1)
    assert not pending.is_unstable(H, T0)
    assert pending.end(1, committed=True) == [(G, T0, "b"), (H, T1, "c")]
    assert H not in pending
    assert pending.end(2, committed=False) == []
    assert (len(pending), list(pending.groups())) == (0, [])
    assert pending.end(1, committed=True) == [], "a marker that comes again"


def test_a_copy_is_not_changed():
    pending = PendingOffsets()
    pending.set(Producer(1, 0), G, T0, "a")
    copy = pending.copy()
    pending.supersede(G, T0)
    assert (len(pending), len(copy)) == (0, 1)
    assert list(copy.entries()) == [(Producer(1, 0), G, T0, "a")]
    copy.set(Producer(2, 0), G, T0, "b")
    assert [value for *_, value in copy.entries()] == ["a", "b"]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pending"), st.integers(1, 3), st.sampled_from([T0, T1])),
        st.tuples(st.just("commit"), st.none(), st.sampled_from([T0, T1])),
        st.tuples(st.just("end"), st.integers(1, 3), st.booleans()),
    ),
    max_size=40,
)


@given(STEPS)
def test_the_newest_offset_counts_as_in_kafka(steps):
    """Kafka's rule: a pending offset counts if its place in the log is behind the committed one's."""
    ours, committed = PendingOffsets(), {}
    theirs, theirs_pending = {}, {}
    for place, (what, producer, more) in enumerate(steps):
        if what == "pending":
            ours.set(Producer(producer, 0), G, more, place)
            theirs_pending.setdefault(producer, {})[more] = place
        elif what == "commit":
            ours.supersede(G, more)
            committed[more] = theirs[more] = place
        else:
            committed.update({slot: value for _, slot, value in ours.end(producer, committed=more)})
            for slot, value in theirs_pending.pop(producer, {}).items():
                if more and value > theirs.get(slot, -1):
                    theirs[slot] = value
        assert committed == theirs
        unstable = {slot for slots in theirs_pending.values() for slot in slots}
        assert set(ours.slots(G)) <= unstable
