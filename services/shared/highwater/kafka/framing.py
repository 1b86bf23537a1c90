"""Frames on a Kafka connection: the length in front, request headers, response headers.

Every frame is an int32 length and that many bytes. A request header has api key, api version,
correlation id and client id (a nullable string with int16 length in all header versions, also in
version 2, which only adds tagged fields); a response header has the correlation id.
"""

import struct
from typing import NamedTuple

from highwater.kafka.api_keys import request_header_version, response_header_version
from highwater.kafka.errors import (
    EncodeError,
    InvalidValueError,
    TruncatedError,
)
from highwater.kafka.primitives import Buffer, skip_tagged_fields

LENGTH_SIZE = 4

_LENGTH = struct.Struct(">i")
_REQUEST_HEADER = struct.Struct(">hhih")
_RESPONSE_HEADER = struct.Struct(">i")
_NULL_CLIENT_ID = -1


class RequestHeader(NamedTuple):
    """A decoded request header; the body starts at `body_pos`."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_pos: int


def decode_request_header(buf: Buffer, pos: int = 0) -> RequestHeader:
    """Decode the header of a request whose frame content is the rest of `buf` from `pos`.

    Also decodes headers of unknown keys and versions, so that the caller can decide what to do; for
    these, `body_pos` is where a version 1 header would end.
    """
    end = len(buf)
    if end - pos < _REQUEST_HEADER.size:
        raise TruncatedError("request header is cut off")
    api_key, api_version, correlation_id, length = _REQUEST_HEADER.unpack_from(buf, pos)
    pos += _REQUEST_HEADER.size
    client_id: str | None = None
    if length >= 0:
        stop = pos + length
        if stop > end:
            raise TruncatedError("client id runs past the end")
        try:
            client_id = str(buf[pos:stop], "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidValueError("client id is not UTF-8") from error
        pos = stop
    if request_header_version(api_key, api_version) == 2:
        if pos >= end:
            raise TruncatedError("request header ends before its tagged fields")
        tags = buf[pos]
        pos += 1
        if tags:
            try:
                pos = skip_tagged_fields(buf, pos, end, tags)
            except IndexError as error:
                raise TruncatedError("tagged fields of the request header are cut off") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id, pos)


def encode_request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Encode the request header, in the header version that belongs to the API version."""
    encoded = b"" if client_id is None else client_id.encode()
    length = _NULL_CLIENT_ID if client_id is None else len(encoded)
    try:
        fixed = _REQUEST_HEADER.pack(api_key, api_version, correlation_id, length)
    except struct.error as error:
        raise EncodeError(f"request header: {error}") from error
    tags = b"\0" if request_header_version(api_key, api_version) == 2 else b""
    return fixed + encoded + tags


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """Encode the response header, in the header version that belongs to the API version."""
    fixed = _RESPONSE_HEADER.pack(correlation_id)
    return fixed + b"\0" if response_header_version(api_key, api_version) else fixed


def decode_response_header(
    buf: Buffer, pos: int, api_key: int, api_version: int
) -> tuple[int, int]:
    """Decode a response header; return the correlation id and where the body starts."""
    end = len(buf)
    flexible = response_header_version(api_key, api_version) == 1
    if end - pos < _RESPONSE_HEADER.size + flexible:
        raise TruncatedError("response header is cut off")
    correlation_id: int = _RESPONSE_HEADER.unpack_from(buf, pos)[0]
    pos += _RESPONSE_HEADER.size
    if flexible:
        tags = buf[pos]
        pos += 1
        if tags:
            try:
                pos = skip_tagged_fields(buf, pos, end, tags)
            except IndexError as error:
                raise TruncatedError("tagged fields of the response header are cut off") from error
    return correlation_id, pos


def frame(*parts: bytes) -> bytes:
    """Put the length in front of the joined parts."""
    content = b"".join(parts)
    return _LENGTH.pack(len(content)) + content
