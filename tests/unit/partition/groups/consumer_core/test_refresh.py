"""Groups follow topics: those that they name, and those that match their expressions."""

from __future__ import annotations

from dataclasses import replace

from highwater.kafka.error_codes import ErrorCode
from highwater.model.authorization import USER, Principal, TopicView
from highwater.partition.coordinator.core.regex import Pattern
from highwater.partition.groups.consumer.assignment import NOTHING
from tests.unit.partition.groups.consumer_dialogue import Consumer, Talk, holding, settle
from tests.unit.partition.groups.dialogue import NO_DELAY
from tests.unit.partition.groups.topics import FakeTopics


def test_a_grown_topic_begins_an_epoch_without_a_heartbeat() -> None:
    d = Talk()
    a = Consumer(d, "a")
    a.join()
    d.topics.set("t", 8)
    d.topics_change()
    assert d.group().epoch == 2
    assert a.beat().assignment == holding(t=(0, 1, 2, 3, 4, 5, 6, 7))


def test_a_topic_that_is_made_later_is_read() -> None:
    d = Talk()
    a = Consumer(d, "a", "later")
    assert a.join().assignment == NOTHING
    d.topics.set("later", 2)
    d.topics_change()
    assert a.beat().assignment == holding(later=(0, 1))


def test_a_deleted_topic_is_taken_away() -> None:
    d = Talk()
    a = Consumer(d, "a", "t", "u")
    a.join()
    d.topics.delete("u")
    d.topics_change()
    assert a.beat().assignment == holding(t=(0, 1, 2, 3, 4, 5))


def test_other_topics_change_nothing() -> None:
    d = Talk()
    Consumer(d, "a").join()
    written = len(d.log)
    d.topics.set("other", 2)
    d.topics_change()
    assert len(d.log) == written


def test_all_of_many_groups_follow() -> None:
    d = Talk(config=replace(NO_DELAY, expiry_groups_per_slice=2))
    names = [f"g{number}" for number in range(7)]
    for name in names:
        d.send(
            "a",
            0,
            group=name,
            rebalance_timeout_ms=1,
            topic_names=frozenset({"t"}),
            owned=NOTHING,
        )
    d.topics.set("t", 8)
    d.topics_change()
    assert [d.group(name).epoch for name in names] == [2] * 7


def test_a_restart_finds_topics_that_changed_meanwhile() -> None:
    d = Talk()
    Consumer(d, "a").join()
    d.topics.set("t", 8)
    d.restart()
    d.wait(100)
    assert d.group().epoch == 2


def test_an_expression_is_looked_up_and_follows_new_topics() -> None:
    d = Talk(topics=FakeTopics(apple=1, pear=1))
    a = Consumer(d, "a", topic_regex="a.*")
    assert a.join().assignment == NOTHING
    d.wait(10)
    assert d.group().regexes["a.*"].topics == {"apple"}
    assert a.beat().assignment == holding(apple=(0,))
    d.topics.set("apricot", 1)
    d.topics_change()
    assert a.beat().assignment == holding(apple=(0,), apricot=(0,))
    d.topics.delete("apple")
    d.topics_change()
    assert a.beat().assignment == holding(apricot=(0,))


def test_thousands_of_topics_are_looked_through_in_steps() -> None:
    d = Talk(topics=FakeTopics(**{f"t{number}": 1 for number in range(1_200)}))
    a = Consumer(d, "a", topic_regex="t1.0")
    a.join()
    d.shard.expire(d.moment)
    assert not d.group().regexes
    d.wait(10)
    assert len(d.group().regexes["t1.0"].topics) == 10


def test_names_and_an_expression_add_up() -> None:
    d = Talk()
    a = Consumer(d, "a", "t", topic_regex="u")
    a.join()
    d.wait(10)
    assert a.beat().assignment == holding(t=(0, 1, 2, 3, 4, 5), u=(0, 1))


def test_a_known_expression_needs_no_look_up() -> None:
    d = Talk()
    a, b = Consumer(d, "a", topic_regex="t"), Consumer(d, "b", topic_regex="t")
    a.join()
    d.wait(10)
    a.beat()
    b.join()
    settle([a, b])
    assert len(b.partitions["t"]) == 3


def test_an_expression_goes_with_its_last_member() -> None:
    d = Talk()
    a, b = Consumer(d, "a", topic_regex="t"), Consumer(d, "b", topic_regex="u")
    a.join()
    b.join()
    d.wait(10)
    assert set(d.group().regexes) == {"t", "u"}
    b.beat(topic_regex="")
    assert set(d.group().regexes) == {"t"}
    a.leave()
    assert not d.group().regexes


def test_a_second_expression_that_comes_during_the_look_up_of_the_first() -> None:
    d = Talk()
    a, b = Consumer(d, "a", topic_regex="t"), Consumer(d, "b", topic_regex="u")
    a.join()
    b.join()
    d.wait(10)
    settle([a, b])
    assert len(a.partitions["t"]) == 6
    assert len(b.partitions["u"]) == 2


def test_a_group_that_is_deleted_during_a_look_up() -> None:
    d = Talk()
    a = Consumer(d, "a", topic_regex="t")
    a.join()
    a.leave()
    key = next(iter(d.shard.durable.consumer_groups))
    assert d.shard.delete_group(key, d.moment) is ErrorCode.NONE
    d.wait(10)
    assert not d.shard.durable.consumer_groups


def test_a_look_up_that_was_cut_off_by_a_restart_is_made_again() -> None:
    d = Talk()
    a = Consumer(d, "a", topic_regex="t")
    a.join()
    d.restart()
    d.wait(100)
    a.beat()
    d.wait(10)
    assert a.beat().assignment == holding(t=(0, 1, 2, 3, 4, 5))


def test_topics_that_do_not_fit_into_a_record_are_none() -> None:
    """The log would refuse the record, again after each reload of the shard."""
    names = {f"topic{number}": 1 for number in range(100)}
    d = Talk(topics=FakeTopics(**names), config=replace(NO_DELAY, operation_bytes_max=1_000))
    a = Consumer(d, "a", topic_regex=".*")
    a.join()
    d.wait(100)
    assert d.group().regexes[".*"].topics == frozenset()
    written = len(d.log)
    d.wait(100)
    assert len(d.log) == written
    for name in list(names)[10:]:
        d.topics.delete(name)
    d.topics_change()
    assert len(d.group().regexes[".*"].topics) == 10


def test_no_turn_does_more_than_a_little_of_all_look_ups() -> None:
    """Groups wait for one another, and costly expressions count for more."""
    topics = FakeTopics(**{f"t{number}": 1 for number in range(50)})
    d = Talk(topics=topics)
    costly = "(.?){500}z"
    for number in range(5):
        d.send(
            f"m{number}",
            0,
            group=f"g{number}",
            rebalance_timeout_ms=1,
            topic_regex=costly,
            owned=NOTHING,
        )
    names_per_turn = 1_000 // Pattern(costly).cost + 1
    assert names_per_turn < 5
    turns = 5 * (50 // names_per_turn)
    d.wait(turns - 1)
    assert sum(len(d.group(f"g{number}").regexes) for number in range(5)) < 5
    d.wait(2 * turns)
    assert [set(d.group(f"g{number}").regexes) for number in range(5)] == [{costly}] * 5


ALICE = TopicView(Principal(USER, "alice"), "10.0.0.1", visible_without_acl=True)
BOB = TopicView(Principal(USER, "bob"), "10.0.0.1", visible_without_acl=True)


def fruits() -> Talk:
    """Alice may not describe pears, and Bob no apples."""
    topics = FakeTopics(apple=1, pear=1, plum=1)
    topics.hidden = {"alice": {"pear"}, "bob": {"apple"}}
    return Talk(topics=topics)


def test_an_expression_matches_only_what_its_member_may_describe() -> None:
    d = fruits()
    a = Consumer(d, "a", topic_regex=".*", view=ALICE)
    a.join()
    d.wait(10)
    assert d.group().regexes[".*"].topics == {"apple", "plum"}
    a.beat(view=ALICE)
    assert a.held == holding(apple=(0,), plum=(0,))
    d.topics.set("peach", 1)
    d.topics_change()
    assert d.group().regexes[".*"].topics == {"apple", "plum", "peach"}


def test_changed_rights_change_what_is_matched() -> None:
    d = fruits()
    Consumer(d, "a", topic_regex="p.*", view=ALICE).join()
    d.wait(10)
    assert d.group().regexes["p.*"].topics == {"plum"}
    d.topics.hidden = {"alice": {"plum"}}
    d.topics_change()
    assert d.group().regexes["p.*"].topics == {"pear"}


def test_a_second_member_changes_nothing_until_the_first_has_gone() -> None:
    d = fruits()
    a = Consumer(d, "a", topic_regex=".*", view=ALICE)
    b = Consumer(d, "b", topic_regex=".*", view=BOB)
    a.join()
    d.wait(10)
    b.join()
    for _ in range(3):
        a.beat(view=ALICE)
        b.beat(view=BOB)
        d.wait(10)
    assert d.group().regexes[".*"].topics == {"apple", "plum"}
    a.leave()
    d.topics_change()
    assert d.group().regexes[".*"].topics == {"apple", "plum"}, "nobody has asked yet"
    b.beat(view=BOB)
    d.wait(10)
    assert d.group().regexes[".*"].topics == {"pear", "plum"}


def test_each_expression_is_looked_up_for_a_member_of_its_own() -> None:
    d = fruits()
    Consumer(d, "a", topic_regex=".*", view=ALICE).join()
    Consumer(d, "b", topic_regex="p.*", view=BOB).join()
    d.wait(20)
    assert d.group().regexes[".*"].topics == {"apple", "plum"}
    assert d.group().regexes["p.*"].topics == {"pear", "plum"}


def test_after_a_restart_nothing_is_shown_until_somebody_asks() -> None:
    d = fruits()
    a = Consumer(d, "a", topic_regex="p.*", view=ALICE)
    a.join()
    d.wait(10)
    a.beat(view=ALICE)
    d.topics.set("peach", 1)
    d.topics.hidden["alice"].add("peach")
    d.restart()
    d.wait(100)
    assert d.group().regexes["p.*"].topics == {"plum"}
    a.beat(view=ALICE)
    d.wait(10)
    assert d.group().regexes["p.*"].topics == {"plum"}
    d.topics.hidden["alice"].discard("peach")
    d.topics_change()
    assert d.group().regexes["p.*"].topics == {"plum", "peach"}


def test_what_a_member_may_describe_is_asked_in_steps() -> None:
    topics = FakeTopics(**{f"t{number}": 1 for number in range(1_000)})
    topics.hidden = {"alice": {"t7"}}
    d = Talk(topics=topics)
    Consumer(d, "a", topic_regex=".*", view=ALICE).join()
    d.wait(5)
    assert not d.group().regexes
    d.wait(50)
    assert len(d.group().regexes[".*"].topics) == 999
