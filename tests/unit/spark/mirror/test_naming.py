"""Names that can be told apart, and those that are refused."""

from __future__ import annotations

import pytest

from highwater.model.errors import UsageError
from highwater.spark.mirror.naming import (
    Source,
    copy_name,
    is_offsets_topic,
    offsets_topic,
    parse_sources,
    transactional_id,
)


def test_sources():
    assert parse_sources(["a=h1:1,h2:2", "b-2=h:3"]) == (
        Source(alias="a", bootstrap="h1:1,h2:2"),
        Source(alias="b-2", bootstrap="h:3"),
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "name a --source"),
        (["h:1"], "ALIAS=HOST:PORT"),
        (["a="], "ALIAS=HOST:PORT"),
        (["a.b=h:1"], "ALIAS=HOST:PORT"),
        ([f"{'a' * 65}=h:1"], "ALIAS=HOST:PORT"),
        (["a=h:1", "a=h:2"], "one alias"),
    ],
)
def test_sources_that_are_none(words: list[str], told: str):
    with pytest.raises(UsageError, match=told):
        parse_sources(words)


def test_copies():
    assert copy_name("a", "t", prefixed=False) == "t"
    assert copy_name("a", "t.x", prefixed=True) == "a.t.x"
    with pytest.raises(UsageError, match="longer than the 249"):
        copy_name("a", "t" * 248, prefixed=True)


def test_a_mirrors_own_topic_is_known_by_its_name():
    assert is_offsets_topic(offsets_topic("a-1"))
    assert not is_offsets_topic("highwater-mirror.a.b.offsets")
    assert not is_offsets_topic("a.highwater-mirror.a.offsets")


def test_no_two_partitions_have_one_id():
    places = [("a", "t", 0), ("a", "t.0", 1), ("a", "t", 1), ("b", "t", 0), ("a", "t.1", 0)]
    assert len({transactional_id(*place) for place in places}) == len(places)
