import struct

import pytest

from highwater.partition.groups.core.subscription import is_subscribed, parse_topics


def test_topics_of_every_version():
    for version in range(4):
        data = struct.pack(">hi", version, 2) + b"\0\1a" + "\0\2é".encode() + b"tail"
        assert parse_topics(data) == {"a", "é"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0\0\0",
        struct.pack(">hi", -1, 0),
        struct.pack(">hi", 0, -1),
        struct.pack(">hi", 0, 2**31 - 1),
        struct.pack(">hi", 0, 1) + b"\0\5abc",
        struct.pack(">hi", 0, 1) + b"\xff\xffabc",
        struct.pack(">hi", 0, 2) + b"\0\1a\0",
        struct.pack(">hi", 0, 1) + b"\0\1\xff",
    ],
)
def test_anything_else_is_not_a_subscription(data):
    assert parse_topics(data) is None


def test_unknown_subscription_counts_as_everything():
    assert is_subscribed(None, "t")
    assert is_subscribed(frozenset({"t"}), "t")
    assert not is_subscribed(frozenset(), "t")
