"""One instance cannot take what others need: members, their metadata, and offsets of a shard."""

from dataclasses import replace
from random import Random

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.transactions import TransactionMarker
from highwater.partition.coordinator.core.values import Producer
from highwater.partition.groups.consumer.assignment import NOTHING
from highwater.partition.groups.core.shares import SharedCounts, has_places
from highwater.partition.groups.core.values import (
    CommitRequest,
    GroupKey,
    LeavingMember,
    OffsetToCommit,
)
from tests.unit.partition.groups.consumer_dialogue import Talk
from tests.unit.partition.groups.dialogue import NO_DELAY
from tests.unit.partition.groups.embedded_members import subscription

RED, BLUE = InstanceId("red"), InstanceId("blue")
ONE, OTHER = GroupKey(RED, "one"), GroupKey(BLUE, "one")
OURS = GroupKey(DEFAULT_INSTANCE, "one")
OK = ErrorCode.NONE
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
TOO_MANY = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
LARGE = (("range", bytes(90)),)
"""95 bytes."""


def shared(**limits: int) -> Talk:
    """A shard in which each instance may have one group."""
    talk = Talk(
        config=replace(NO_DELAY, **limits),
        limit=lambda instance: "full" if talk.shard.count(instance) else "",
    )
    return talk


def fill(talk: Talk, group: GroupKey, offer: tuple[tuple[str, bytes], ...] = LARGE) -> int:
    """Static members join until one is refused; how many."""
    for number in range(100):
        call = talk.join(group=group, instance_id=f"s{number}", protocols=offer)
        if not call.parked and call.error is FULL:
            return number
    raise AssertionError("never refused")


def heartbeat(talk: Talk, group: GroupKey, member: str, **fields: object) -> ErrorCode:
    fields = {"topic_names": frozenset({"t"}), **fields}
    sent = talk.send(member, 0, group=group, rebalance_timeout_ms=1, owned=NOTHING, **fields)
    return sent.error


def commit(
    talk: Talk, group: GroupKey, *partitions: int, producer: Producer | None = None
) -> ErrorCode:
    """Offsets of a simple consumer, or those of a transaction; the first one's error."""
    request = CommitRequest(
        key=group,
        generation=-1,
        member_id="",
        instance_id=None,
        retention_ms=-1,
        offsets=tuple(OffsetToCommit("t", partition, 1, -1, "") for partition in partitions),
    )
    if producer is None:
        errors = talk.shard.commit_offsets(request, talk.moment)
    else:
        errors = talk.shard.commit_pending(request, producer, talk.moment)
    talk.settle()
    return errors[0]


def end(talk: Talk, producer: Producer, *, committed: bool) -> None:
    marker = TransactionMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=committed,
        coordinator_epoch=1,
        transaction_version=2,
    )
    talk.shard.end_transaction(marker, talk.moment)
    talk.settle()


# -- the rule ---------------------------------------------------------------------------------------


def test_each_may_have_as_much_as_is_left_and_the_default_one_all():
    assert has_places(RED, 1, own=2, left=3)
    assert not has_places(RED, 1, own=3, left=3)
    assert has_places(RED, 3, own=0, left=3)
    assert not has_places(RED, 4, own=0, left=3)
    assert has_places(DEFAULT_INSTANCE, 3, own=100, left=3)
    assert not has_places(DEFAULT_INSTANCE, 4, own=0, left=3)


def test_counts_know_their_sum():
    counts = SharedCounts()
    counts.add(RED, 5)
    counts.add(BLUE, 2)
    copy = counts.copy()
    counts.add(RED, -4)
    assert (counts[RED], counts[BLUE], counts.total) == (1, 2, 3)
    assert (copy[RED], copy.total) == (5, 7)
    assert counts.has_places(RED, 6, limit=10)
    assert not counts.has_places(RED, 7, limit=10)


# -- members and what they send ---------------------------------------------------------------------


def test_metadata_of_one_instance_leave_room_for_those_of_others():
    talk = shared(metadata_bytes_max=1_000)
    assert fill(talk, ONE) == 5
    assert talk.join(group=OTHER, instance_id="s0", protocols=LARGE).parked
    # What is there goes on.
    talk.run_due()
    first = next(iter(talk.shard.groups[ONE].members))
    assert talk.join(first, group=ONE, instance_id="s0", protocols=LARGE).error is OK


def test_instance_ids_are_metadata():
    talk = shared(metadata_bytes_max=1_000)
    long = "s" * 600
    assert talk.join(group=ONE, instance_id=long).parked
    assert talk.shard.metadata_bytes == len("rangemeta") + len(long)
    assert talk.join(group=ONE, instance_id="t" * 600).error is FULL
    assert talk.join(group=OTHER, instance_id="u" * 300).parked


def test_ids_that_one_instance_was_handed_leave_some_for_others():
    talk = shared(members_max=50)
    answers = [talk.join(group=ONE).error for _ in range(26)]
    assert answers == [ErrorCode.MEMBER_ID_REQUIRED] * 25 + [FULL]
    handed = talk.join(group=OTHER)
    assert handed.error is ErrorCode.MEMBER_ID_REQUIRED
    assert talk.join(handed.join.member_id, group=OTHER).parked
    # An id that was handed out is a place already.
    assert talk.join(next(iter(talk.shard.groups[ONE].pending_members)), group=ONE).parked
    talk.wait(60_000)
    assert talk.join(group=ONE).error is ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize("limits", [{"members_max": 20}, {"metadata_bytes_max": 30_000}])
def test_members_of_the_consumer_protocol_leave_room_for_others(limits):
    talk = shared(**limits)
    answers = [heartbeat(talk, ONE, f"m{number}") for number in range(40)]
    taken = answers.index(FULL)
    assert 5 < taken < 20
    assert set(answers[taken:]) == {FULL}
    assert heartbeat(talk, OTHER, "m") is OK
    assert heartbeat(talk, ONE, "m0") is OK, "it is there already"
    assert talk.send("m0", -1, group=ONE).error is OK


def test_instance_ids_of_the_consumer_protocol_are_metadata():
    talk = shared(metadata_bytes_max=10_000)
    assert heartbeat(talk, ONE, "a", instance_id="s" * 4_000) is OK
    assert heartbeat(talk, ONE, "b", instance_id="t" * 4_000) is FULL
    assert heartbeat(talk, ONE, "c", instance_id="u" * 9_000, topic_names=None, topic_regex="") is (
        FULL
    )
    assert heartbeat(talk, OTHER, "b", instance_id="t" * 3_000) is OK


def test_a_member_of_the_classic_protocol_in_a_consumer_group():
    talk = shared(members_max=20)
    while heartbeat(talk, ONE, f"m{talk.shard.member_counts[RED]}") is OK:
        pass
    assert heartbeat(talk, OTHER, "m") is OK
    offer = (("range", subscription("t")),)
    assert talk.join(group=ONE, version=0, protocols=offer).error is FULL
    assert talk.join(group=OTHER, version=0, protocols=offer).error is OK


def test_what_an_expression_matches_leaves_room_for_others():
    talk = shared(metadata_bytes_max=8_000)
    for number in range(80):
        talk.topics.set(f"t{number}", 1)
    for group, matches in ((ONE, False), (OTHER, True)):
        if matches:
            talk.topics.delete("t")
            for number in range(60):
                talk.topics.delete(f"t{number}")
        assert heartbeat(talk, group, "m", topic_names=None, topic_regex=".*") is OK
        talk.wait(1_000)
        assert bool(talk.group(group).regexes[".*"].topics) is matches


def classic_group(talk: Talk, group: GroupKey, members: int) -> None:
    """A stable one of many members that read a topic."""
    offer = (("range", subscription("t")),)
    handed = [talk.join(group=group, protocols=offer).join.member_id for _ in range(members)]
    calls = [talk.join(member_id, group=group, protocols=offer) for member_id in handed]
    talk.run_due()
    generation = calls[0].join.generation
    for call in calls:
        talk.sync(call.join.member_id, generation, dict.fromkeys(handed, b""), group=group)


def test_a_group_that_grows_when_it_is_converted():
    talk = shared(metadata_bytes_max=8_000)
    classic_group(talk, ONE, 8)
    before = talk.shard.metadata_bytes
    assert heartbeat(talk, ONE, "new") is FULL
    assert talk.shard.metadata_bytes == before
    assert heartbeat(talk, OTHER, "new") is OK
    smaller = shared(metadata_bytes_max=8_000)
    classic_group(smaller, ONE, 3)
    assert heartbeat(smaller, ONE, "new") is OK


def test_the_default_instance_may_have_all():
    talk = shared(metadata_bytes_max=1_000)
    assert fill(talk, OURS) == 10
    talk = shared(members_max=50)
    answers = [talk.join(group=OURS).error for _ in range(50)]
    # One place is that of the retention check.
    assert answers == [ErrorCode.MEMBER_ID_REQUIRED] * 49 + [FULL]
    talk = shared(metadata_bytes_max=8_000)
    classic_group(talk, OURS, 8)
    assert heartbeat(talk, OURS, "new") is OK


# -- offsets ----------------------------------------------------------------------------------------


def test_offsets_of_one_instance_leave_places_for_others():
    talk = shared(offsets_max=10)
    answers = [commit(talk, ONE, partition) for partition in range(6)]
    assert answers == [OK] * 5 + [TOO_MANY]
    assert commit(talk, OTHER, 0) is OK
    assert commit(talk, OTHER, 1, 2) is OK
    assert commit(talk, OTHER, 3) is TOO_MANY
    # More than is left now: what the instance has it may commit anew.
    assert commit(talk, ONE, *range(5)) is OK
    assert commit(talk, ONE, 4, 5) is TOO_MANY


def test_pending_offsets_of_one_instance_leave_places_for_others():
    talk = shared(offsets_max=10)
    red, second = Producer(1, 0), Producer(2, 0)
    assert commit(talk, ONE, 0, 1) is OK
    assert commit(talk, ONE, 0, 1, producer=red) is OK
    assert commit(talk, ONE, 0, producer=second) is OK
    assert commit(talk, ONE, 1, producer=second) is TOO_MANY
    assert commit(talk, ONE, 0, 1, producer=red) is OK, "nothing more than it has"
    assert commit(talk, OTHER, 0, producer=Producer(3, 0)) is OK
    end(talk, red, committed=True)
    end(talk, second, committed=False)
    assert commit(talk, ONE, 2, producer=second) is OK


def test_the_default_instance_may_have_all_offsets():
    talk = shared(offsets_max=10)
    assert commit(talk, OURS, *range(6)) is OK
    assert commit(talk, OURS, *range(6, 10), producer=Producer(1, 0)) is OK
    assert commit(talk, OURS, 0) is OK
    assert commit(talk, OURS, 10) is TOO_MANY


# -- what is counted --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_counts_are_right_after_whatever_happens(seed):
    """The dialogue compares them with the state after every step (`invariants`)."""
    random = Random(seed)
    talk = Talk(config=replace(NO_DELAY, metadata_bytes_max=20_000, members_max=30, offsets_max=20))
    groups = [GroupKey(one, name) for one in (RED, BLUE, DEFAULT_INSTANCE) for name in ("g", "h")]
    for _ in range(250):
        step(talk, random, random.choice(groups))
    talk.wait(3_000_000)
    talk.shard.forgetting.begin({RED})
    while len(talk.shard.forgetting):
        talk.shard.forgetting.step(talk.moment)
        talk.settle()
    assert (talk.shard.member_counts[RED], talk.shard.metadata_counts[RED]) == (0, 0)
    durable = talk.shard.durable
    assert (durable.offset_counts[RED], durable.pending.counts[RED]) == (0, 0)


def step(talk: Talk, random: Random, group: GroupKey) -> None:
    classic, consumer = (
        talk.shard.groups.get(group),
        talk.shard.durable.consumer_groups.get(group),
    )
    members = list(() if classic is None else classic.members.values())
    ids = [m.member_id for m in members] or list(() if consumer is None else consumer.members)
    known = random.choice([*ids, *(() if classic is None else classic.pending_members), ""])
    static = random.choice([None, None, "s", "static"])
    producer = Producer(random.randrange(3), 0)
    offers = (("range", subscription(*random.choice([("t",), ("t", "u")]))),)
    generation = 0 if classic is None else classic.generation
    match random.randrange(12):
        case 0 | 1:
            talk.join(group=group, instance_id=static, protocols=offers)
        case 2:
            talk.join(known, group=group, protocols=offers)
        case 3:
            for call in [talk.join(i, group=group, protocols=offers) for i in ids]:
                if not call.parked and call.error is OK:
                    parts = dict.fromkeys(ids, b"")
                    talk.sync(call.join.member_id, generation, parts, group=group)
        case 4:
            for one in ids:
                talk.sync(one, generation, dict.fromkeys(ids, b""), group=group)
        case 5:
            leaving = [LeavingMember(member_id=known), LeavingMember(member_id="", instance_id="s")]
            talk.leave(random.choice(leaving), group=group)
        case 6:
            wants = random.choice([{}, {"topic_regex": ".*"}, {"instance_id": "s"}])
            heartbeat(talk, group, random.choice(["a", "b", "c"]), **wants)
        case 7:
            epoch = random.choice([-1, -2])
            talk.send(random.choice(["a", "b", "c"]), epoch, group=group, instance_id=static)
        case 8:
            commit(talk, group, *random.sample(range(6), 2))
            if random.random() < 0.2:
                talk.shard.delete_offsets(group, [("t", 0), ("t", 1)], talk.moment)
                talk.settle()
        case 9:
            commit(talk, group, *random.sample(range(6), 2), producer=producer)
            if random.random() < 0.4:
                end(talk, producer, committed=random.random() < 0.5)
        case 10:
            talk.wait(random.choice([1, 3_000, 20_000]))
        case _:
            rare(talk, random, group)


def rare(talk: Talk, random: Random, group: GroupKey) -> None:
    match random.randrange(4):
        case 0:
            talk.restart()
        case 1:
            talk.shard.delete_group(group, talk.moment)
        case 2:
            talk.shard.topics_deleted(group.instance, frozenset({"t"}), talk.moment)
        case _:
            talk.wait(100_000)
    talk.settle()
