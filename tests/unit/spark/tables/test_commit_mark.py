"""Marks go through text, and foreign text is no mark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.tables.commit_mark import from_json, new_mark, to_json
from highwater.spark.tables.port import Committed


def test_a_mark_goes_through_its_text() -> None:
    mark = new_mark("load", 3, '{"a": "ä\\n"}')
    assert from_json(to_json(mark)) == mark
    assert mark.committed == Committed(version=3, note='{"a": "ä\\n"}')
    assert "\n" not in to_json(mark)


def test_attempts_differ() -> None:
    assert new_mark("load", 3, "") != new_mark("load", 3, "")


def test_versions_count_up() -> None:
    with pytest.raises(ValueError, match="-1"):
        new_mark("load", -1, "")


@pytest.mark.parametrize("text", [None, "", "{", "[]", "7", '{"a": 1}', '{"highwater.commit": {}}'])
def test_other_text_is_no_mark(text: str | None) -> None:
    assert from_json(text) is None
