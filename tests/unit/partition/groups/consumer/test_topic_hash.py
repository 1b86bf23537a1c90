"""All numbers were made by Kafka 4.3.1: `Utils.computeTopicHash` and `computeGroupHash`."""

from __future__ import annotations

from highwater.model.ids import TopicId
from highwater.partition.groups.consumer.topic_hash import group_hash, topic_hash

ORDERS = TopicId(bytes(range(16)))
NEGATIVE = TopicId(bytes(range(0x81, 0x91)))

KAFKA = {
    "orders": 1502989681467347195,
    "a": -7777970652492514704,
    "Zoo": 8110384344627941747,
    "many": -1664159770296673781,
    "none": -1176860733544799374,
}


def uuid(most: int, least: int) -> TopicId:
    """As Kafka's `new Uuid(most, least)`."""
    return TopicId(most.to_bytes(8, "big", signed=True) + least.to_bytes(8, "big", signed=True))


def test_topics_have_the_hashes_that_kafka_gives_them() -> None:
    assert topic_hash(ORDERS, "orders", 2, ()) == KAFKA["orders"]
    assert topic_hash(ORDERS, "orders", 2, ((), ())) == KAFKA["orders"], "no replica has a rack"
    assert topic_hash(NEGATIVE, "a", 1, (("east",),)) == KAFKA["a"]
    assert topic_hash(uuid(3, 4), "none", 0, ()) == KAFKA["none"]


def test_every_replica_counts_and_racks_are_sorted_by_units_of_utf_16() -> None:
    racks = (("b", "a", "b"), ("c",), ("\N{GRINNING FACE}", "\N{FULLWIDTH TILDE}"))
    assert topic_hash(uuid(-1, 7), "Zoo", 3, racks) == KAFKA["Zoo"]
    many = tuple((f"rack-{n % 7}", f"rack-{n % 3}", f"rack-é{n % 2}") for n in range(300))
    assert topic_hash(uuid(1, 2), "many", 300, many) == KAFKA["many"]


def test_groups_have_the_hashes_that_kafka_gives_them() -> None:
    assert group_hash([]) == 0
    assert group_hash([("a", KAFKA["a"])]) == 435387165582995509
    assert group_hash([("orders", KAFKA["orders"])]) == 3433511394066070737
    assert group_hash((name, KAFKA[name]) for name in ("orders", "a")) == -8687304585128685231
    assert group_hash(KAFKA.items()) == 3203993553623640632
