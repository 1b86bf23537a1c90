"""What changes the group's epoch, and what does not."""

from __future__ import annotations

from highwater.kafka.error_codes import ErrorCode
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk, settle
from tests.unit.partition.groups.embedded_members import Embedded


def test_the_epoch_grows_with_the_topics_of_a_member_and_nothing_else() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    a.beat(rack_id="r", assignor="range", rebalance_timeout_ms=7)
    assert d.group().epoch == 1
    assert d.group().members["a"].metadata.rack_id == "r"
    a.beat(topic_names=frozenset({"t"}))
    assert d.group().epoch == 1
    a.beat(topic_names=frozenset({"t", "u"}))
    assert d.group().epoch == 2


def test_nothing_is_written_when_nothing_has_changed() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    written = len(d.log)
    a.beat(topic_names=frozenset({"t"}), rebalance_timeout_ms=60_000)
    assert len(d.log) == written


def test_a_member_without_topics_leaves_the_others_alone() -> None:
    d = Talk()
    Consumer(d, "a").join()
    d.send("b", 0, rebalance_timeout_ms=1, topic_names=frozenset(), owned={})
    assert d.group().epoch == 1
    assert set(d.group().members) == {"a", "b"}


def test_a_member_that_changes_its_protocol_has_no_deadlines_of_the_old_one() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    b = Embedded(d)
    b.join()
    settle([a], 2)
    assert (
        d.heartbeat(b.id, b.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    )  # It is to join again.
    b_anew = Consumer(d, b.id)
    b_anew.join()
    for _ in range(6):
        d.wait(5_000)
        settle([a, b_anew], 1)
    assert b_anew.partitions["t"]
