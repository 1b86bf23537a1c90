"""Details of the engine that the contract suite cannot see."""

import pytest

from highwater.controller.store.engine import Engine, under
from highwater.controller.store.port import (
    CompactedError,
    Delete,
    Entry,
    Put,
    WatchBatch,
    WatchEvent,
)


def put(engine: Engine, key: str, value: bytes = b"") -> int:
    engine.apply(engine.plan((), [Put(key=key, value=value)]))
    return engine.revision


def test_a_plan_changes_nothing() -> None:
    engine = Engine()
    plan = engine.plan((), [Put(key="a", value=b"1")])
    assert plan.revision == engine.revision + 1
    assert engine.range("").entries == ()
    engine.apply(plan)
    assert engine.range("").entries[0].value == b"1"


def test_nothing_to_do_is_no_revision() -> None:
    engine = Engine()
    plan = engine.plan((), [Delete(key="never-there")])
    assert plan.succeeded
    assert engine.apply(plan) is None
    assert plan.revision == engine.revision == 1


def test_history_is_bounded() -> None:
    engine = Engine(history_events_max=5)
    revisions = [put(engine, f"k{n}") for n in range(10)]
    assert [b.revision for b in engine.since("", revisions[5])] == revisions[5:]
    with pytest.raises(CompactedError) as raised:
        engine.since("", revisions[4])
    assert raised.value.compact_revision == revisions[4]


def test_a_loaded_engine_has_no_history() -> None:
    engine = Engine()
    engine.load(50, [Entry(key="a", value=b"1", create_revision=7, mod_revision=9)])
    with pytest.raises(CompactedError):
        engine.since("", 50)
    assert engine.since("", 51) == []
    assert put(engine, "a", b"2") == 51
    (entry,) = engine.range("").entries
    assert (entry.create_revision, entry.mod_revision) == (7, 51)


def test_a_put_without_lease_takes_the_key_from_its_lease() -> None:
    engine = Engine()
    lease = engine.grant()
    engine.apply(engine.plan((), [Put(key="a", value=b"", lease=lease)]))
    assert engine.keys_of_lease(lease) == ("a",)
    put(engine, "a")
    assert engine.keys_of_lease(lease) == ()


def test_keys_under_a_prefix() -> None:
    events = tuple(WatchEvent(key=key, value=b"", mod_revision=3) for key in ("a/1", "b/1"))
    batch = WatchBatch(revision=3, events=events)
    assert under("", batch) is batch
    kept = under("a/", batch)
    assert kept is not None
    assert [event.key for event in kept.events] == ["a/1"]
    assert under("c/", batch) is None


def test_a_range_in_steps_is_one_in_order() -> None:
    engine = Engine()
    numbers = [n * 7919 % 1_000 for n in range(1_000)]
    engine.load(5, [_entry(f"{'ab'[n % 2]}/{n:04}") for n in numbers])
    steps = 0
    for _ in engine.ranging("a/"):
        steps += 1
    assert steps >= 4, "the loop is left to others meanwhile"
    assert [e.key for e in engine.range("a/").entries] == [f"a/{n:04}" for n in range(0, 1_000, 2)]
    assert len(engine.range("").entries) == 1_000


def test_a_large_plan_is_applied_in_steps_and_seen_as_a_whole() -> None:
    engine = Engine()
    plan = engine.plan((), [Put(key=f"{n:04}", value=b"") for n in range(1_000)])
    before = engine.revision
    steps = 0
    for _ in engine.applying(plan):
        steps += 1
        assert engine.revision == before
    assert steps >= 3, "the loop is left to others meanwhile"
    assert engine.revision == plan.revision
    [batch] = engine.since("", plan.revision)
    assert len(batch.events) == len(engine.range("").entries) == 1_000


def _entry(key: str) -> Entry:
    return Entry(key=key, value=b"", create_revision=2, mod_revision=3)
