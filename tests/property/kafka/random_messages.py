"""Random messages of any API and version, built from the schemas and not from the codec.

Values are ones that the oracles accept: known error codes, times that a datetime can hold.
"""

import importlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import highwater.kafka.registry
from highwater.kafka.error_codes import ErrorCode
from tools.codegen.layout import FieldLayout, StructLayout, message_layout
from tools.codegen.names import snake_case
from tools.codegen.schema import Message, load_message

SCHEMAS = Path(highwater.kafka.registry.__file__).parent / "schemas"
STRINGS = ("", "a", "access_log", "grüße-世界-🎈", "x" * 126, "y" * 127, "z" * 300)
ERROR_CODES = [int(code) for code in ErrorCode]
ELEMENTS_MAX = 3
TIME_MS_MAX = 4_000_000_000_000
REMOVED_BELOW = {0: 3, 1: 4, 2: 1}
"""API key -> the first version that Kafka 4.0 left (KIP-896), where we have earlier ones."""
INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


@dataclass(frozen=True)
class Case:
    """One version of one request or response."""

    message: Message
    version: int

    def __str__(self) -> str:
        return f"{self.message.name}-v{self.version}"

    @property
    def module(self) -> ModuleType:
        name = snake_case(self.message.name.removesuffix("Request").removesuffix("Response"))
        return importlib.import_module(f"highwater.kafka.messages.{name}")

    @property
    def removed(self) -> bool:
        """True if Kafka 4.0 removed the version, and current oracles do not know it."""
        return self.version < REMOVED_BELOW.get(self.message.api_key or 0, 0)

    @property
    def layout(self) -> StructLayout:
        return _layout(self.message.name, self.version)

    @property
    def flexible(self) -> bool:
        return self.layout.flexible

    def encode(self, value: Any) -> bytes:
        return getattr(self.module, f"encode_{self.message.kind}")(value, self.version)

    def decode(self, data: bytes | memoryview, pos: int = 0) -> Any:
        return getattr(self.module, f"decode_{self.message.kind}")(data, pos, self.version)

    def random(self, rng: Random) -> Any:
        return _random_struct(rng, self.module, self.layout)


@cache
def schemas() -> dict[str, Message]:
    messages = [load_message(path) for path in sorted(SCHEMAS.glob("*.json"))]
    return {message.name: message for message in messages if message.kind != "header"}


@cache
def _layout(name: str, version: int) -> StructLayout:
    return message_layout(schemas()[name], version)


def all_cases() -> list[Case]:
    return [
        Case(message, version)
        for message in schemas().values()
        if message.kind in ("request", "response")
        for version in message.valid.versions()
    ]


def _random_struct(rng: Random, module: ModuleType, layout: StructLayout) -> Any:
    values = {field.name: _random_field(rng, module, field) for field in layout.plain}
    for field in layout.tagged:
        if rng.random() < 0.5:
            value = _random_field(rng, module, field)
            # Kafka and the oracles do not send a struct that equals the default; our codec does.
            if field.struct is None or field.is_array or value != type(value)():
                values[field.name] = value
    return getattr(module, layout.class_name)(**values)


def _random_field(rng: Random, module: ModuleType, field: FieldLayout) -> Any:
    if field.nullable and rng.random() < 0.25:
        return None
    if field.is_array:
        return [_random_value(rng, module, field) for _ in range(rng.randint(0, ELEMENTS_MAX))]
    return _random_value(rng, module, field)


def _random_value(rng: Random, module: ModuleType, field: FieldLayout) -> Any:
    if field.struct is not None:
        return _random_struct(rng, module, field.struct)
    match field.kind:
        case "string":
            return rng.choice(STRINGS)
        case "bytes" | "records":
            return rng.randbytes(rng.choice((0, 1, 126, 127, 200)))
        case "uuid":
            return rng.choice((bytes(16), rng.randbytes(16)))
        case "bool":
            return rng.random() < 0.5
        case "float64":
            return rng.uniform(-1e9, 1e9)
        case "uint16":
            return rng.randrange(1 << 16)
    return _random_int(rng, field)


_OF_TOKENS = {"issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"}
"""Times that kio cannot have as -1, which Kafka says where there is no token."""


def _random_int(rng: Random, field: FieldLayout) -> int:
    if field.name.endswith("error_code"):
        return rng.choice(ERROR_CODES)
    if field.kind == "int64" and (field.name.endswith("_ms") or "timestamp" in field.name):
        least = 0 if field.name in _OF_TOKENS else -1
        return rng.choice((least, 0, rng.randrange(TIME_MS_MAX)))
    half = 1 << (INT_BITS[field.kind] - 1)
    return rng.choice((0, -1, 1, -half, half - 1, rng.randrange(-half, half)))
