"""Which copies may not be."""

from __future__ import annotations

import pytest

from highwater.spark.mirror.loops import comes_back, conflict, wanted_copy
from highwater.spark.mirror.offset_records import Copy


def test_a_path_grows_with_every_cluster():
    first = wanted_copy("t", "a", "t", "A", {})
    assert first == Copy(topic="t", source="a", source_topic="t", path=("A",))
    second = wanted_copy("t", "b", "t", "B", {"t": first})
    assert second.path == ("A", "B")
    assert comes_back(second, "A")
    assert comes_back(second, "B")
    assert not comes_back(second, "C")


COPY = Copy(topic="x", source="a", source_topic="t", path=("A",))


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (COPY, None),
        (Copy(topic="x", source="a", source_topic="t", path=("Z", "A")), None),
        (Copy(topic="y", source="b", source_topic="t", path=("B",)), None),
        (Copy(topic="x", source="b", source_topic="t", path=("B",)), "copy of t of b already"),
        (Copy(topic="x", source="a", source_topic="u", path=("A",)), "copy of u of a already"),
        (Copy(topic="x", source="a", source_topic="t", path=("B",)), "another alias"),
    ],
)
def test_two_sources_of_one_topic(other: Copy, told: str | None):
    found = conflict(COPY, [other])
    assert found is None if told is None else told in (found or "")
