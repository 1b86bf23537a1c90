"""Names of fields; tests/spark parses records in Spark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.model.errors import ConfigError
from highwater.spark.events import JsonFields, parse_fields


def test_names_of_fields():
    assert parse_fields("") == JsonFields()
    assert parse_fields("time=ts,latency_ms=request.took") == JsonFields(
        time="ts", latency_ms="request.took"
    )
    assert parse_fields("referrer=").referrer == ""


def test_a_field_that_events_do_not_have():
    with pytest.raises(ConfigError, match="no field 'speed' of an event: time, client"):
        parse_fields("speed=x")
