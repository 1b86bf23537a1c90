"""Limits of partitions and of messages."""

from dataclasses import replace

import pytest

from highwater.controller.core.instance_limits import PartitionAllowance, message_bytes_error
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceState
from tests.support.controller_images import image_with, topic_state, with_instances

SHOP = InstanceId("shop")
TOPICS = [
    topic_state("a", [(1,)] * 2, instance=SHOP),
    replace(topic_state("b", [(1,)] * 50, instance=SHOP), internal=True),
    topic_state("c", [(1,)] * 9),
]
IMAGE = with_instances(
    image_with(1, topics=TOPICS),
    InstanceState(instance=SHOP, partitions_max=5, message_bytes_max=1_000),
)


def test_what_an_instance_has_counts_and_what_it_takes() -> None:
    allowance = PartitionAllowance(IMAGE, SHOP)
    assert allowance.take(2, "x") is None
    refusal = allowance.take(2, "y")
    assert refusal is not None
    assert refusal.code == ErrorCode.POLICY_VIOLATION
    assert refusal.message == (
        "instance 'shop' may have 5 partitions and has 4: no 2 more for topic 'y'"
    )
    assert allowance.take(1, "z") is None, "one that was refused takes nothing"
    assert allowance.take(1, "z") is not None


@pytest.mark.parametrize("instance", [DEFAULT_INSTANCE, InstanceId("other")])
def test_others_have_no_limit(instance: InstanceId) -> None:
    image = with_instances(IMAGE, InstanceState(instance=InstanceId("other")))
    assert PartitionAllowance(image, instance).take(1_000, "x") is None
    assert message_bytes_error(image, instance, {"max.message.bytes": "9999"}) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("1000", None),
        ("0", None),
        ("1001", "max.message.bytes is 1001, and instance 'shop' allows 1000 at most"),
        ("x", "Not a number"),
    ],
)
def test_the_bound_of_messages(value: str, words: str | None) -> None:
    found = message_bytes_error(IMAGE, SHOP, {"max.message.bytes": value, "retention.ms": "1"})
    assert found is None if words is None else words in (found or "")


def test_what_is_not_set_is_not_checked() -> None:
    assert message_bytes_error(IMAGE, SHOP, {"retention.ms": "1"}) is None
