from __future__ import annotations

from dataclasses import replace

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.coordinator.shard_host import HostSettings
from highwater.partition.groups.consumer.assignment import NOTHING
from highwater.partition.groups.consumer.requests import HeartbeatRequest
from highwater.partition.groups.records import encode
from tests.unit.partition.groups.consumer_dialogue import Talk, holding
from tests.unit.partition.groups.dialogue import NO_DELAY, key

FULL = {"rebalance_timeout_ms": 1, "topic_names": frozenset({"t"}), "owned": NOTHING}


@pytest.mark.parametrize(
    ("member", "epoch", "fields", "message"),
    [
        ("", 0, FULL, "MemberId can't be empty."),
        (" ", 1, {}, "MemberId can't be empty."),
        ("", -1, {"makes_its_id": False}, "MemberId can't be empty."),
        ("m", 0, {**FULL, "group": " "}, "GroupId can't be empty."),
        ("m", 0, {**FULL, "instance_id": ""}, "InstanceId can't be empty."),
        ("m", 0, {**FULL, "rack_id": ""}, "RackId can't be empty."),
        (
            "m",
            0,
            {**FULL, "rebalance_timeout_ms": None},
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (
            "m",
            0,
            {**FULL, "owned": None},
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            "m",
            0,
            {**FULL, "owned": holding(t=(1,))},
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            "m",
            0,
            {**FULL, "topic_names": None},
            (
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                "(re-)joining."
            ),
        ),
        ("m", -2, {}, "InstanceId can't be null."),
        ("m", -3, {}, "MemberEpoch is invalid."),
    ],
)
def test_invalid_requests(member: str, epoch: int, fields: dict[str, object], message: str) -> None:
    d = Talk()
    answer = d.send(member, epoch, **fields)  # type: ignore[arg-type]
    assert (answer.error, answer.message) == (ErrorCode.INVALID_REQUEST, message)
    assert not d.log


def test_an_unknown_assignor() -> None:
    answer = Talk().send("m", 0, **FULL, assignor="best")
    assert answer.error is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert answer.message == (
        "ServerAssignor best is not supported. Supported assignors: uniform, range."
    )


def test_an_invalid_expression() -> None:
    d = Talk()
    answer = d.send("m", 0, **FULL, topic_regex="[")
    assert answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.message is not None
    assert answer.message.startswith("SubscribedTopicRegex `[` is not a valid regular expression:")
    assert not d.log


def test_an_empty_subscription_is_one() -> None:
    d = Talk()
    nothing = {**FULL, "topic_names": frozenset[str]()}
    assert d.send("m", 0, **nothing).assignment == NOTHING


def test_more_names_than_a_record_can_hold() -> None:
    d = Talk()
    names = frozenset(f"{number:0>1000}" for number in range(1_001))
    answer = d.send("m", 0, **{**FULL, "topic_names": names})
    assert answer.error is ErrorCode.INVALID_REQUEST


def test_topics_whose_names_do_not_fit_into_a_record_are_refused() -> None:
    """Many short names: their lengths count, too."""
    d = Talk()
    names = frozenset(f"{number:x}" for number in range(200_000))
    assert d.send("m", 0, **{**FULL, "topic_names": names}).error is ErrorCode.INVALID_REQUEST
    assert not d.log


def test_a_member_as_large_as_may_be_fits_into_a_batch() -> None:
    d = Talk()
    longest = "x" * 32_767
    names = frozenset(f"{number:06}" for number in range(72_000))
    request = HeartbeatRequest(
        key=key("g"),
        member_id=longest,
        epoch=0,
        client_id=longest,
        client_host="/127.0.0.1",
        instance_id=longest,
        rack_id=longest,
        rebalance_timeout_ms=1,
        topic_names=names,
        topic_regex="y" * 9_000,
        owned=NOTHING,
    )
    assert d.shard.consumer_heartbeat(request, d.moment).error is ErrorCode.NONE
    sizes = [len(k) + len(v or b"") for k, v in map(encode, d.shard.take_records())]
    assert max(sizes) + 100 < HostSettings().batch_bytes_max


def test_members_are_refused_when_there_is_no_memory_for_them() -> None:
    d = Talk(config=replace(NO_DELAY, metadata_bytes_max=100_000))
    many = {**FULL, "topic_names": frozenset(f"{number:06}" for number in range(300))}
    answers = [d.send(f"m{number}", 0, **many) for number in range(3)]
    assert [answer.error for answer in answers] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]
    assert d.send("m1", 0, **many).error is ErrorCode.NONE  # Nothing more than it has.
    d.send("m0", -1)
    assert d.send("m2", 0, **many).error is ErrorCode.NONE


def test_memory_is_counted_after_a_restart_too() -> None:
    d = Talk()
    d.send("m", 0, **FULL, topic_regex=".*")
    d.wait(10)
    before = d.shard.metadata_bytes
    d.restart()
    assert d.shard.metadata_bytes == before > 0
