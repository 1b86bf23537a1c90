"""Metadata and deadlines as header fields (gRPC over HTTP2, "Requests")."""

import base64
import binascii
import math
import re
from collections.abc import Sequence
from typing import Final

from highwater.http2.headers import Fields
from highwater.runtime.shared_secret import METADATA_KEY

Metadata = Sequence[tuple[str, str | bytes]]
"""Keys that end in -bin have bytes, all others printable ASCII."""

_KEY: Final = re.compile(r"[0-9a-z_.\-]+")
_VALUE: Final = re.compile(r"[\x20-\x7e]*")
_OF_GRPC: Final = frozenset({
    "content-type", "content-length", "te", "user-agent", "host", METADATA_KEY
})  # fmt: skip
"""Fields that are no metadata of the caller's; so are all that begin with grpc-. The cluster's secret
is the channel's and the guard's, and handlers never see it."""

_UNITS_S: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT: Final = re.compile(r"([0-9]{1,8})([HMSmun])")
_TIMEOUT_VALUE_MAX: Final = 99_999_999


def is_grpc(content_type: str) -> bool:
    """Whether a content-type is gRPC's, of any encoding of messages; that of gRPC-Web is not."""
    return content_type == "application/grpc" or content_type.startswith(
        ("application/grpc+", "application/grpc;")
    )


def encode_metadata(metadata: Metadata) -> Fields:
    """The fields of metadata. Raises ValueError for what cannot travel (our mistake)."""
    fields: Fields = []
    for key, value in metadata:
        if _KEY.fullmatch(key) is None or key.startswith("grpc-") or key in _OF_GRPC:
            raise ValueError(f"no key for metadata: {key!r}")
        if isinstance(value, bytes):
            if not key.endswith("-bin"):
                raise ValueError(f"bytes need a key that ends in -bin: {key!r}")
            fields.append((key, base64.b64encode(value).rstrip(b"=").decode()))
        elif key.endswith("-bin") or _VALUE.fullmatch(value) is None:
            raise ValueError(f"no value for metadata {key!r}: {value!r}")
        else:
            fields.append((key, value))
    return fields


def no_metadata() -> Metadata:
    """That of channels whose calls show nothing."""
    return ()


def encode_proof(proof: Metadata) -> Fields:
    """The fields of what a channel shows with each call: text, and already checked."""
    return [(key, value) for key, value in proof if isinstance(value, str)]


def decode_metadata(fields: Fields) -> list[tuple[str, str | bytes]]:
    """The caller's metadata among header fields. Raises ValueError for a malformed -bin value."""
    metadata: list[tuple[str, str | bytes]] = []
    for key, value in fields:
        if key.startswith("grpc-") or key in _OF_GRPC:
            continue
        if key.endswith("-bin"):
            # Several values of a key may be joined by commas, on the way or by the peer.
            metadata += [(key, _decode_base64(part)) for part in value.split(",")]
        else:
            metadata.append((key, value))
    return metadata


def _decode_base64(value: str) -> bytes:
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        raise ValueError(f"not base64: {value[:40]!r}") from None


def encode_timeout(timeout_s: float) -> str:
    """The value of `grpc-timeout`: at most 8 digits and a unit, rounded up."""
    for unit in "umSMH":
        value = math.ceil(timeout_s / _UNITS_S[unit])
        if value <= _TIMEOUT_VALUE_MAX:
            return f"{max(value, 1)}{unit}"
    return f"{_TIMEOUT_VALUE_MAX}H"


def decode_timeout(value: str) -> float:
    """Seconds of a `grpc-timeout`. Raises ValueError."""
    match = _TIMEOUT.fullmatch(value)
    if match is None:
        raise ValueError(f"no grpc-timeout: {value[:40]!r}")
    return int(match[1]) * _UNITS_S[match[2]]
