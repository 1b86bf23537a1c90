"""Finds the codec of an API key and loads its generated module on first use."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from highwater.kafka.errors import UnknownApiKeyError
from highwater.kafka.message_index import API_MODULES
from highwater.kafka.primitives import Buffer

Decode = Callable[[Buffer, int, int], Any]
"""(buffer, position of the body, api version) -> message."""

Encode = Callable[[Any, int], bytes]
"""(message, api version) -> body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCodec:
    """The functions of one API over all versions min_version..max_version.

    `flexible_from` is the first version with tagged fields, NEVER_FLEXIBLE if there is none.
    `encode_response_parts` exists where responses carry records: it returns pieces to be sent in
    order, each record set being a piece of its own and the very object that the message holds.
    """

    api_key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    decode_request: Decode
    encode_request: Encode
    decode_response: Decode
    encode_response: Encode
    encode_response_parts: Callable[[Any, int], list[Any]] | None


def request_codec(api_key: int) -> ApiCodec:
    """Return the codec of an API key; UnknownApiKeyError when there is none."""
    codec = _LOADED.get(api_key)
    if codec is None:
        codec = _LOADED[api_key] = _load(api_key)
    return codec


def _load(api_key: int) -> ApiCodec:
    name = API_MODULES.get(api_key)
    if name is None:
        raise UnknownApiKeyError(api_key)
    module = importlib.import_module(f"highwater.kafka.messages.{name}")
    return ApiCodec(
        api_key=module.API_KEY,
        name=name,
        min_version=module.MIN_VERSION,
        max_version=module.MAX_VERSION,
        flexible_from=module.FLEXIBLE_FROM,
        decode_request=module.decode_request,
        encode_request=module.encode_request,
        decode_response=module.decode_response,
        encode_response=module.encode_response,
        encode_response_parts=getattr(module, "encode_response_parts", None),
    )


# A cache of modules that never change; at most one entry for each API key.
_LOADED: dict[int, ApiCodec] = {}
