"""Random requests with the structure of Kafka's schemas: every API, every version, odd values."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import highwater.kafka
from tests.robustness.fuzz.record_sets import random_records
from tests.robustness.fuzz.tokens import Kind, Token, number
from tools.codegen.schema import Field, Message, load_message

_SCHEMAS = Path(highwater.kafka.__path__[0]) / "schemas"

TOPICS = ("fuzz-0", "fuzz-1", "fuzz-2")
"""Topics that requests may change in any way."""

_NAMES = (
    *TOPICS, *TOPICS, *TOPICS, *TOPICS,
    "", ".", "..", "fuzz 0", "fuzz-\u6c34", "x" * 249, "x" * 250, "x" * 3_000, "__consumer_offsets",
)  # fmt: skip
_GROUPS = ("fuzz-group-0", "fuzz-group-1", "fuzz-group-2", "", "g" * 1_000)
_CONFIGS = (
    "retention.ms", "cleanup.policy", "segment.bytes", "max.message.bytes", "no.such.config",
    "message.timestamp.type", "compression.type", "min.insync.replicas", "",
)  # fmt: skip
_CONFIG_VALUES = ("1", "-1", "0", "compact", "delete", "x", "9223372036854775807", "LogAppendTime")
_INTERESTING = (-1, 0, 1, 2, 3, 7, 100, 2**15 - 1, 2**31 - 1, 2**63 - 1, -(2**31), -(2**63))
_SIZES = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8,
}  # fmt: skip
_ELEMENTS_MAX = 3
_DEPTH_MAX = 6


@cache
def request_schemas() -> dict[int, Message]:
    """The schemas of all requests that clients may send, by API key."""
    loaded = [load_message(path) for path in sorted(_SCHEMAS.glob("*Request.json"))]
    return {message.api_key: message for message in loaded if message.api_key is not None}


Offered = Mapping[int, tuple[int, int]]
"""The APIs that a broker advertises: API key -> (first version, last version)."""

_OFFERED_SHARE = 0.9


class RequestGenerator:
    """Makes requests from one random source: the same source gives the same requests.

    Most are of APIs and versions that the broker offers; the rest is anything that Kafka knows.
    """

    def __init__(
        self, chance: random.Random, offered: Offered, topic_ids: Sequence[bytes] = ()
    ) -> None:
        """`topic_ids` are those of TOPICS; later the broker may not know some any more."""
        self._chance = chance
        self._topic_ids = (*topic_ids, *topic_ids, bytes(16))
        self._schemas = request_schemas()
        self._keys = sorted(self._schemas)
        self._offered = [
            (key, version)
            for key, (first, last) in sorted(offered.items())
            if key in self._schemas
            for version in self._schemas[key].valid.versions()
            if first <= version <= last
        ]
        assert self._offered
        self._values: dict[str, Callable[[], int]] = {
            "partition": lambda: chance.choice((0, 0, 1, 2, 5, -1, 2**31 - 1)),
            "index": lambda: chance.choice((0, 0, 1, 2, 5, -1)),
            "acks": lambda: chance.choice((-1, 0, 1, 1, 2)),
            "timeout_ms": lambda: chance.choice((0, 1, 50, 100, 10_000, -1, 2**31 - 1)),
            "max_wait_ms": lambda: chance.choice((0, 0, 1, 5, 20, 2**31 - 1, -1)),
            "num_partitions": lambda: chance.choice((-1, 1, 1, 2, 0, -2, 2**31 - 1)),
            "count": lambda: chance.choice((1, 2, 3, 0, -1, 2**31 - 1)),
            "replication_factor": lambda: chance.choice((-1, 1, 1, 0, 5, 2**15 - 1)),
            "session_timeout_ms": lambda: chance.choice((6_000, 10_000, 0, -1, 2**31 - 1)),
        }

    def request(self, correlation_id: int) -> tuple[int, int, list[Token]]:
        """One request without its frame length: (api key, version, tokens)."""
        if self._chance.random() < _OFFERED_SHARE:
            key, version = self._chance.choice(self._offered)
        else:
            key = self._chance.choice(self._keys)
            version = self._chance.choice(list(self._schemas[key].valid.versions()) or [0])
        schema = self._schemas[key]
        tokens = self._header(schema, version, correlation_id)
        self._struct(tokens, schema, schema.name, version, depth=0)
        return key, version, tokens

    def _header(self, schema: Message, version: int, correlation_id: int) -> list[Token]:
        assert schema.api_key is not None
        tokens = [
            number(Kind.VALUE, schema.api_key, 2),
            number(Kind.VALUE, version, 2),
            number(Kind.VALUE, correlation_id, 4),
            number(Kind.LENGTH, 4, 2),
            Token(kind=Kind.BYTES, content=b"fuzz"),
        ]
        if version in schema.flexible:
            self._tags(tokens, schema, (), version, depth=0)
        return tokens

    def _struct(
        self, tokens: list[Token], schema: Message, name: str, version: int, *, depth: int
    ) -> None:
        fields = [field for field in schema.structs[name] if version in field.versions]
        for field in fields:
            if version not in field.tagged:
                self._field(tokens, schema, field, version, depth=depth)
        if version in schema.flexible:
            tagged = tuple(field for field in fields if version in field.tagged)
            self._tags(tokens, schema, tagged, version, depth=depth)

    def _field(
        self, tokens: list[Token], schema: Message, field: Field, version: int, *, depth: int
    ) -> None:
        flexible = version in schema.flexible
        nullable = version in field.nullable
        if field.is_array:
            if nullable and self._chance.random() < 0.1:
                tokens.append(number(Kind.COUNT, -1, 4, compact=flexible))
                return
            count = 0 if depth > _DEPTH_MAX else self._chance.randint(0, _ELEMENTS_MAX)
            tokens.append(number(Kind.COUNT, count, 4, compact=flexible))
            for _ in range(count):
                self._element(tokens, schema, field, version, depth=depth)
        else:
            if field.is_struct and nullable:
                absent = self._chance.random() < 0.3
                tokens.append(number(Kind.VALUE, -1 if absent else 1, 1))
                if absent:
                    return
            self._element(tokens, schema, field, version, depth=depth)

    def _element(
        self, tokens: list[Token], schema: Message, field: Field, version: int, *, depth: int
    ) -> None:
        flexible = version in schema.flexible
        if field.is_struct:
            self._struct(tokens, schema, field.kind, version, depth=depth + 1)
        elif field.kind == "string":
            content = self._text(field.name).encode()
            tokens.append(number(Kind.LENGTH, len(content), 2, compact=flexible))
            tokens.append(Token(kind=Kind.BYTES, content=content))
        elif field.kind in {"bytes", "records"}:
            content = self._bytes(field)
            tokens.append(number(Kind.LENGTH, len(content), 4, compact=flexible))
            tokens.append(Token(kind=Kind.BYTES, content=content))
        elif field.kind == "uuid":
            content = self._chance.choice((*self._topic_ids, self._chance.randbytes(16)))
            tokens.append(Token(kind=Kind.VALUE, content=content))
        elif field.kind == "float64":
            value = self._chance.choice((0.0, -1.0, float("nan"), float("inf")))
            tokens.append(Token(kind=Kind.VALUE, content=struct.pack(">d", value)))
        else:
            tokens.append(number(Kind.VALUE, self._integer(field.name), _SIZES[field.kind]))

    def _tags(
        self,
        tokens: list[Token],
        schema: Message,
        tagged: tuple[Field, ...],
        version: int,
        *,
        depth: int,
    ) -> None:
        chosen: list[tuple[int, list[Token]]] = []
        for field in tagged:
            if self._chance.random() < 0.3:
                assert field.tag is not None
                inside: list[Token] = []
                self._field(inside, schema, field, version, depth=depth)
                chosen.append((field.tag, inside))
        if self._chance.random() < 0.05:
            unknown = Token(kind=Kind.BYTES, content=self._chance.randbytes(5))
            chosen.append((self._chance.choice((77, 10_000, 2**31 - 1)), [unknown]))
        tokens.append(number(Kind.COUNT, len(chosen) - 1, 4, compact=True))
        for tag, inside in chosen:
            size = sum(len(token.content) for token in inside)
            tokens.append(number(Kind.TAG, tag - 1, 4, compact=True))
            tokens.append(number(Kind.LENGTH, size - 1, 4, compact=True))
            tokens += inside

    def _integer(self, name: str) -> int:
        for ending, draw in self._values.items():
            if name.endswith(ending):
                return draw()
        return self._chance.choice(_INTERESTING)

    def _text(self, name: str) -> str:
        if "group" in name or name == "key":
            return self._chance.choice(_GROUPS)
        if name in {"name", "topic", "topics", "resource_name", "topic_names"}:
            return self._chance.choice(_CONFIGS if self._chance.random() < 0.2 else _NAMES)
        if name == "value":
            return self._chance.choice(_CONFIG_VALUES)
        return self._chance.choice(("", "x", "range", "consumer", "fuzz", "\u6c34", "y" * 500))

    def _bytes(self, field: Field) -> bytes:
        if field.kind == "records":
            return random_records(self._chance)
        return self._chance.randbytes(self._chance.choice((0, 1, 8, 60)))
