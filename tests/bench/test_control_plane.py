"""The control plane's benchmark on a small cluster."""

from __future__ import annotations

from tests.bench.control_plane import Row, measure_steps, measure_together, table
from tests.bench.control_plane_scene import Size, image_of

SMALL = Size(topics=2)


def test_the_victims_lead_all_their_partitions() -> None:
    image = image_of(SMALL)
    states = [p for topic in image.topics.values() for p in topic.partitions]
    for node in SMALL.victims:
        assert {p.leader for p in states if node in p.replicas} == {node}
        assert sum(p.leader == node for p in states) == 3 * SMALL.partitions // SMALL.nodes


async def test_every_step_is_measured_in_every_round() -> None:
    rows = measure_steps(SMALL, 2) + await measure_together(SMALL, 2)
    assert all(len(row.samples_ms) == 2 and min(row.samples_ms) >= 0 for row in rows)
    assert sum(row.limit_ms is not None for row in rows) == 4


def test_a_row_says_whether_it_is_within_its_limit() -> None:
    rows = [Row(name="a", samples_ms=(1.0, 2.0, 9.0), limit_ms=5.0)]
    assert table(rows) == [["a", "2.0 (< 5: reached)", "9.0"]]
