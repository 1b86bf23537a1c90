"""What a mirror is asked for."""

from __future__ import annotations

import pytest

from highwater.model.errors import UsageError
from highwater.spark.mirror.naming import offsets_topic
from highwater.spark.mirror.request import MirrorRequest


def test_names_of_copies():
    request = MirrorRequest(topics=("t",), pattern=None, offsets_max=1)
    assert request.copy_name("a", "t") == "t"
    request = MirrorRequest(topics=("t",), pattern=None, offsets_max=1, prefixed=True)
    assert request.copy_name("a", "t") == "a.t"


def test_a_mirrors_own_topic_is_refused():
    with pytest.raises(UsageError, match="a mirror's own topic"):
        MirrorRequest(topics=("t", offsets_topic("a")), pattern=None, offsets_max=1)
