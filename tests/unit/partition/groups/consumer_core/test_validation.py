from __future__ import annotations

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.consumer.assignment import NOTHING
from tests.unit.partition.groups.consumer_dialogue import Talk, holding

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
