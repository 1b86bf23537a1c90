"""Marks in the texts of Delta's commits."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.tables.commit_mark import new_mark, to_json
from highwater.spark.tables.delta import find_mark


def commit(metadata: str | None) -> str:
    info = {"commitInfo": {"operation": "WRITE", "userMetadata": metadata}}
    return f"{json.dumps(info)}\n{json.dumps({'add': {'path': 'x'}})}\n"


def test_the_newest_mark_of_the_writer() -> None:
    old, new, other = new_mark("w", 1, "old"), new_mark("w", 2, "new"), new_mark("v", 9, "")
    newest_first = map(commit, [None, to_json(other), "text", to_json(new), to_json(old)])
    assert find_mark(newest_first, "w") == new


def test_no_mark() -> None:
    assert find_mark([commit(None), '{"add": {"path": "a\\"commitInfo\\""}}'], "w") is None
