from highwater.partition.core import replica_events as on
from highwater.partition.core.transitions import TRANSITIONS, Role

ROLE_EVENTS = {
    on.PartitionChanged,
    on.IneligibleChanged,
    on.NodeRegistered,
    on.LogFailed,
    on.ReplicaRemoved,
}
LEADER_EVENTS = {
    on.LagChecked,
    on.IsrDue,
    on.IsrAnswered,
    on.IsrUnanswered,
    on.HandOverAsked,
    on.HandOverGivenUp,
}
LOG_EVENTS = {on.LogEndMoved, on.WrittenLate}
FOLLOWER_EVENTS = {on.Diverged, on.OutOfRange}


def test_every_role_has_an_answer_to_every_event_that_may_come_late() -> None:
    for role in Role:
        assert (
            TRANSITIONS[role].keys() >= ROLE_EVENTS | LEADER_EVENTS | FOLLOWER_EVENTS | LOG_EVENTS
        )


def test_only_their_role_acts_on_them() -> None:
    for role in Role:
        for events, acting in ((LEADER_EVENTS, Role.LEADER), (FOLLOWER_EVENTS, Role.FOLLOWER)):
            for event in events:
                assert (TRANSITIONS[role][event] == "_too_late") == (role is not acting)


def test_who_leads_or_follows_hears_of_late_writes_and_flushes() -> None:
    for role in Role:
        for event in LOG_EVENTS:
            acts = role in (Role.LEADER, Role.FOLLOWER)
            assert (TRANSITIONS[role][event] != "_too_late") == acts


def test_only_followers_truncate() -> None:
    assert [role for role in Role if on.LogTruncated in TRANSITIONS[role]] == [Role.FOLLOWER]
