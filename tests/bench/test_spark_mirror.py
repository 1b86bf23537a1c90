"""What the two tools are told, and what they tell."""

from __future__ import annotations

from tests.bench.spark_copying import Copying
from tests.bench.spark_mirror import (
    MirrorJob,
    MirrorMaker2,
    comparisons,
    mirror_maker_settings,
    told_records,
)


def test_records_are_those_of_all_rounds() -> None:
    log = 'WARN {"progress"\n{"told": "x is made"}\n'
    assert told_records(log) == 0
    log += '{"progress": {"records": 30, "lag": 12}}\nnoise\n{"progress": {"records": 12}}\n'
    assert told_records(log) == 42


def test_mirror_maker_copies_one_way_and_does_nothing_else() -> None:
    found = mirror_maker_settings("m1", "here:1", "there:2", "orders")
    assert found["m1.bootstrap.servers"] == "here:1"
    assert found["target.bootstrap.servers"] == "there:2"
    assert found["m1->target.enabled"] == "true"
    assert {value for name, value in found.items() if name.startswith(("target->", "emit."))} == {
        "false"
    }
    assert found["topics"] == "orders"


def test_a_rate_and_a_processor_time_are_compared_each_in_its_direction() -> None:
    ours = (Copying(records=100, seconds=2.0, cpu_s=8.0),)
    theirs = (Copying(records=100, seconds=4.0, cpu_s=2.0),)
    rate, time = comparisons("mirror to combined", (MirrorJob, MirrorMaker2), [ours, theirs])
    assert (rate.ratio, rate.ours.values) == (2.0, (50.0,))
    assert (time.ratio, time.ours.values) == (0.25, (8.0,))
    assert rate.beside is not None
    assert (rate.ours.name, rate.beside.name) == ("highwater-spark mirror", "MirrorMaker 2")
