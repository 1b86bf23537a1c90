"""Which values fit a format and what becomes of them, by Spark's own parsers; no broker is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from pyspark.sql import functions as f

from highwater.spark.value_format import FormatName, ValueFormat, parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEPTH_MAX = 1000
"""Of objects and arrays within one another, to Spark's reader of JSON."""


def parsed(
    spark: SparkSession, wanted: ValueFormat, values: list[bytes | None]
) -> list[tuple[Any, str | None]]:
    """Values, with their fields as tuples, and errors; all values are parsed by one task, in order."""
    rows = spark.createDataFrame(
        [(None if value is None else bytearray(value),) for value in values], "value binary"
    ).coalesce(1)
    columns = parse(wanted, f.col("value"))
    found = rows.select(columns.value.alias("value"), columns.error.alias("error")).collect()
    return [(row["value"] and tuple(row["value"]), row["error"]) for row in found]


def deep(depth: int) -> bytes:
    """An object with arrays within one another."""
    return b'{"z": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def test_a_value_is_json_as_a_whole(spark: SparkSession) -> None:
    wanted = ValueFormat(name=FormatName.JSON, schema="a int, b string")
    good: list[bytes | None] = [
        b' {"a": 1, "b": "x"} \r\n',
        b'{"b": {"x": [1, "]}"]}}',
        b'{"c": "]}, {"}',
        b"{}",
        deep(DEPTH_MAX),
        None,
    ]
    assert parsed(spark, wanted, good) == [
        ((1, "x"), None),
        ((None, '{"x":[1,"]}"]}'), None),
        ((None, None), None),
        ((None, None), None),
        ((None, None), None),
        (None, None),
    ]
    first = b'{"a": 1}'
    rest = [
        first,
        b" xx",
        b",",
        b"," + first,
        b"]",
        b"}",
        b"] xx",
        b"} xx",
        b"],[",
        b',"b":1',
        b"\0",
    ]
    bad: list[bytes | None] = [first + each for each in rest]
    bad += [b"[" + first + b"]", b"1", b"null", b" ", deep(DEPTH_MAX + 1)]
    errors = [error for _, error in parsed(spark, wanted, bad)]
    assert errors == ["not JSON of the schema"] * len(bad)


def test_no_value_of_csv_touches_the_next_one(spark: SparkSession) -> None:
    """One parser has them all: what is left of a value would be the next one's row."""
    wanted = ValueFormat(name=FormatName.CSV, schema="a string, b string")
    values = {
        b"x,y\n": ("x", "y\n"),
        b"x\ny,z": ("x\ny", "z"),
        b'"x\r\n,y",z': ("x\r\n,y", "z"),
        b"x,y\n\n": ("x", "y\n\n"),
        b"x,y\n1,2": None,
        b'x,"y': ("x", "y"),
        # The one character that ends a line there.
        "x,\uffffy,z".encode(): None,
        "x,y\uffff\uffff".encode(): None,
        b"," * 20_479: None,
        b"," * 20_480: None,
        b"": None,
    }
    between: list[bytes | None] = []
    for each in values:
        between += [each, b"g,h"]
    found = parsed(spark, wanted, between)
    assert found[1::2] == [(("g", "h"), None)] * len(values)
    assert [(error is None) and value for value, error in found[::2]] == [
        wanted_value or False for wanted_value in values.values()
    ]
    assert {error for _, error in found} == {None, "not CSV of the schema"}
