"""Compares bytes, values and names of every API and version with kio."""

import dataclasses
import datetime as dt
import io
import uuid
from random import Random
from typing import Any

import pytest
from kio.index import load_payload_module
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from tests.property.kafka.random_messages import Case, all_cases

SAMPLES = 6
CASES = [case for case in all_cases() if not case.removed]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def kio_class(case: Case) -> type:
    kind = EntityType.request if case.message.kind == "request" else EntityType.response
    module = load_payload_module(case.message.api_key, case.version, kind)
    return getattr(module, case.message.name)


def plain(value: Any) -> Any:
    """Turn kio's typed values into those of the wire."""
    match value:
        case dt.timedelta():
            return value // dt.timedelta(milliseconds=1)
        case dt.datetime():
            return (value - EPOCH) // dt.timedelta(milliseconds=1)
        case uuid.UUID():
            return value.bytes
        case tuple():
            return [plain(item) for item in value]
    return value


def assert_same(ours: Any, theirs: Any) -> None:
    for field in dataclasses.fields(theirs):
        expected = getattr(theirs, field.name)
        name = field.name if hasattr(ours, field.name) else f"{field.name}_ms"
        actual = getattr(ours, name)
        if dataclasses.is_dataclass(expected) and actual is None:
            continue  # A tagged struct that was not sent; kio shows its defaults.
        if dataclasses.is_dataclass(expected):
            assert_same(actual, expected)
        elif isinstance(expected, tuple) and expected and dataclasses.is_dataclass(expected[0]):
            assert len(actual) == len(expected)
            for one, other in zip(actual, expected, strict=True):
                assert_same(one, other)
        elif expected is None:
            # kio uses null for the zero UUID and for "no timestamp", too.
            assert actual in (None, bytes(16), -1), name
        else:
            actual = list(actual) if isinstance(actual, tuple) else actual
            assert actual == plain(expected), name


def test_the_oracle_knows_every_version_that_we_have() -> None:
    ours = {(case.message.api_key, case.version) for case in CASES}
    theirs = {
        (key, version) for key, name in api_key_map.items() for version in schema_name_map[name]
    }
    assert ours <= theirs
    assert len(ours) > 200


@pytest.mark.parametrize("case", CASES, ids=str)
def test_same_bytes_and_values(case: Case) -> None:
    rng = Random(str(case))
    reader = entity_reader(kio_class(case))
    writer = entity_writer(kio_class(case))
    for _ in range(SAMPLES):
        message = case.random(rng)
        data = case.encode(message)
        parsed, size = reader(data, 0)
        assert size == len(data)
        assert_same(message, parsed)
        rewritten = io.BytesIO()
        writer(rewritten, parsed)
        assert rewritten.getvalue() == data
        assert case.decode(memoryview(data)) == message
