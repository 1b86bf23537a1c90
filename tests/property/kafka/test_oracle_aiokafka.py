"""Compares bytes and values with aiokafka where the other oracles know only what Kafka 4.0 left."""

from collections.abc import Iterator
from random import Random
from typing import Any

import aiokafka.protocol.fetch
import aiokafka.protocol.offset
import aiokafka.protocol.produce
import pytest

from tests.property.kafka.random_messages import Case, all_cases
from tools.codegen.layout import StructLayout

SAMPLES = 20
CASES = [case for case in all_cases() if case.removed]
NAMES = {
    "ProduceRequest": (aiokafka.protocol.produce, "ProduceRequest"),
    "ProduceResponse": (aiokafka.protocol.produce, "ProduceResponse"),
    "FetchRequest": (aiokafka.protocol.fetch, "FetchRequest"),
    "FetchResponse": (aiokafka.protocol.fetch, "FetchResponse"),
    "ListOffsetsRequest": (aiokafka.protocol.offset, "OffsetRequest"),
    "ListOffsetsResponse": (aiokafka.protocol.offset, "OffsetResponse"),
}


def oracle_of(case: Case) -> Any:
    module, name = NAMES[case.message.name]
    return getattr(module, f"{name}_v{case.version}")


def ours(value: Any, layout: StructLayout) -> Iterator[Any]:
    """The values in the order of the wire."""
    for field in layout.plain:
        item = getattr(value, field.name)
        if field.struct is None:
            yield list(item) if field.is_array else item
        else:
            for element in item:
                yield from ours(element, field.struct)


def theirs(schema: Any, values: Any) -> Iterator[Any]:
    for kind, value in zip(schema.fields, values, strict=True):
        element = getattr(kind, "array_of", None)
        if hasattr(element, "fields"):
            for one in value:
                yield from theirs(element, one)
        else:
            yield value


def test_every_removed_version_has_its_oracle() -> None:
    assert {(case.message.api_key, case.version) for case in CASES} == {
        *((0, version) for version in range(3)),
        *((1, version) for version in range(4)),
        (2, 0),
    }


@pytest.mark.parametrize("case", CASES, ids=str)
def test_same_bytes_and_values(case: Case) -> None:
    rng = Random(str(case))
    oracle = oracle_of(case)
    for _ in range(SAMPLES):
        message = case.random(rng)
        data = case.encode(message)
        parsed = oracle.decode(data)
        values = [getattr(parsed, name) for name in oracle.SCHEMA.names]
        assert list(ours(message, case.layout)) == list(theirs(oracle.SCHEMA, values))
        assert parsed.encode() == data
        assert case.decode(data) == message
