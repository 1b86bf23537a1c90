"""gRPC's status codes, and how a status travels (gRPC over HTTP2, "Responses" and "Errors")."""

from enum import IntEnum
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from highwater.http2.errors import ErrorCode
from highwater.rpc.metadata import Metadata


class StatusCode(IntEnum):
    """The numbers of `grpc-status`."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Status(NamedTuple):
    """How a call ended; `metadata` is that of the trailers."""

    code: StatusCode
    details: str = ""
    metadata: Metadata = ()


_OF_RESET: Final = {
    ErrorCode.NO_ERROR: StatusCode.INTERNAL,
    ErrorCode.PROTOCOL_ERROR: StatusCode.INTERNAL,
    ErrorCode.INTERNAL_ERROR: StatusCode.INTERNAL,
    ErrorCode.FLOW_CONTROL_ERROR: StatusCode.INTERNAL,
    ErrorCode.SETTINGS_TIMEOUT: StatusCode.INTERNAL,
    ErrorCode.FRAME_SIZE_ERROR: StatusCode.INTERNAL,
    ErrorCode.REFUSED_STREAM: StatusCode.UNAVAILABLE,
    ErrorCode.CANCEL: StatusCode.CANCELLED,
    ErrorCode.COMPRESSION_ERROR: StatusCode.INTERNAL,
    ErrorCode.CONNECT_ERROR: StatusCode.INTERNAL,
    ErrorCode.ENHANCE_YOUR_CALM: StatusCode.RESOURCE_EXHAUSTED,
    ErrorCode.INADEQUATE_SECURITY: StatusCode.PERMISSION_DENIED,
}

_OF_HTTP: Final = {
    400: StatusCode.INTERNAL,
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.UNIMPLEMENTED,
    429: StatusCode.UNAVAILABLE,
    502: StatusCode.UNAVAILABLE,
    503: StatusCode.UNAVAILABLE,
    504: StatusCode.UNAVAILABLE,
}

_MESSAGE_SAFE: Final = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
"""Printable ASCII but %, which "Percent-Encoded" of the protocol leaves as it is."""

DETAILS_BYTES_MAX: Final = 4 << 10
"""Of a `grpc-message`, encoded. Peers take 16 KiB of header fields, and may give up the whole
connection for more."""


def code_of_reset(code: int) -> StatusCode:
    """The status of a stream that ended by RST_STREAM."""
    try:
        return _OF_RESET.get(ErrorCode(code), StatusCode.UNKNOWN)
    except ValueError:
        return StatusCode.UNKNOWN


def code_of_http(status: int) -> StatusCode:
    """The status of a response that is not gRPC's (gRPC's http-grpc-status-mapping)."""
    return _OF_HTTP.get(status, StatusCode.UNKNOWN)


def code_of_trailer(value: str | None) -> StatusCode:
    """The value of `grpc-status`; UNKNOWN if it is missing or no code."""
    if value is None or not (value.isascii() and value.isdigit() and len(value) <= 2):
        return StatusCode.UNKNOWN
    try:
        return StatusCode(int(value))
    except ValueError:
        return StatusCode.UNKNOWN


def encode_details(details: str) -> str:
    """A value of `grpc-message`: UTF-8, percent-encoded, cut after DETAILS_BYTES_MAX."""
    encoded = quote(details[:DETAILS_BYTES_MAX], safe=_MESSAGE_SAFE)
    if len(encoded) <= DETAILS_BYTES_MAX:
        return encoded
    # Not within an escape; half a character is replaced at the other end.
    cut = encoded.find("%", DETAILS_BYTES_MAX - 2, DETAILS_BYTES_MAX)
    return encoded[: DETAILS_BYTES_MAX if cut < 0 else cut]


def decode_details(value: str) -> str:
    """The text of a `grpc-message`; what is not UTF-8 is replaced, never an error."""
    return unquote_to_bytes(value).decode("utf-8", "replace")
