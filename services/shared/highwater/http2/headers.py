"""Header sections: HPACK (RFC 7541) by `hpack`, and the rules of RFC 9113, section 8."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hpack import Decoder, Encoder, HPACKError

from highwater.http2.errors import ConnectionViolationError, ErrorCode, StreamViolationError

Fields = list[tuple[str, str]]
"""Names in lower case, values as Latin-1: every octet is a character."""

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9a-z]+")
_FORBIDDEN_IN_VALUE: Final = re.compile("[\0\r\n]")
_HOP_BY_HOP: Final = frozenset(
    {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
)
"""Section 8.2.2."""
_REQUEST_PSEUDO: Final = frozenset({":method", ":scheme", ":path", ":authority"})
_TOO_MANY_UPDATES: Final = re.compile(rb"(?:[\x20-\x3e]|\x3f[\x80-\xff]{0,9}[\x00-\x7f]){3}")
"""Two are what anybody needs (RFC 7541, section 4.2); a block of nothing else would cost 50 ms."""
_ERROR_WORDS_MAX: Final = 100


class HeaderDecoder:
    """Header blocks of one connection, in the order of arrival; each changes the HPACK table."""

    def __init__(self, list_bytes_max: int) -> None:
        self._decoder = Decoder(max_header_list_size=list_bytes_max)

    def decode(self, block: bytes) -> Fields:
        """The field lines as they stand, not checked. Raises ConnectionViolationError."""
        if _TOO_MANY_UPDATES.match(block) is not None:
            raise ConnectionViolationError(
                ErrorCode.COMPRESSION_ERROR, "more than two updates of the table's size"
            )
        try:
            # Raw: octets that are not UTF-8 are allowed, and no error of the whole connection.
            pairs = self._decoder.decode(block, raw=True)
        except HPACKError as error:
            raise ConnectionViolationError(ErrorCode.COMPRESSION_ERROR, _words(error)) from None
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in pairs]


class HeaderEncoder:
    """Header blocks that leave in the order of `encode`."""

    def __init__(self) -> None:
        self._encoder = Encoder()

    def set_table_bytes(self, nbytes: int) -> None:
        """Takes the peer's SETTINGS_HEADER_TABLE_SIZE; the next block says so."""
        encoder = self._encoder
        if nbytes == encoder.header_table_size:
            return  # By setting it again the library would forget to announce the change.
        encoder.header_table_size = nbytes
        changes = encoder.table_size_changes
        if len(changes) > 2:
            # The least and the last one (RFC 7541, section 4.2): the library would send them all.
            changes[:] = [min(changes), changes[-1]]

    def encode(self, fields: Iterable[tuple[str, str]]) -> bytes:
        """A block of these field lines; pseudo header fields must come first."""
        return self._encoder.encode(
            [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeaders:
    """A request's header section; `fields` are without the pseudo header fields.

    They may have a secret, so nobody sees them by printing this.
    """

    method: str
    scheme: str
    path: str
    authority: str
    fields: Fields = field(repr=False)
    content_length: int
    """-1 if there is none."""


def request_of(fields: Fields) -> RequestHeaders:
    """Checks a request's header section (section 8.3.1). Raises StreamViolationError."""
    pseudo, plain = _split(fields)
    if not pseudo.keys() <= _REQUEST_PSEUDO:
        raise _malformed("pseudo header fields")
    if not all(pseudo.get(name) for name in (":method", ":scheme", ":path")):
        raise _malformed("a request without method, scheme or path")
    return RequestHeaders(
        method=pseudo[":method"],
        scheme=pseudo[":scheme"],
        path=pseudo[":path"],
        authority=pseudo.get(":authority", ""),
        fields=plain,
        content_length=_content_length(plain),
    )


def response_of(fields: Fields) -> tuple[int, Fields]:
    """HTTP status and other fields of a response (section 8.3.2). Raises StreamViolationError."""
    pseudo, plain = _split(fields)
    status = pseudo.get(":status", "")
    if len(pseudo) != 1 or not (len(status) == 3 and status.isascii() and status.isdigit()):
        raise _malformed("pseudo header fields")
    return int(status), plain


def trailers_of(fields: Fields) -> Fields:
    """Checks a trailer section, which has no pseudo header fields. Raises StreamViolationError."""
    pseudo, plain = _split(fields)
    if pseudo:
        raise _malformed("pseudo header fields in trailers")
    return plain


def _split(fields: Fields) -> tuple[dict[str, str], Fields]:
    pseudo: dict[str, str] = {}
    plain: Fields = []
    for name, value in fields:
        if _FORBIDDEN_IN_VALUE.search(value) is not None:
            raise _malformed("a field value")
        if name.startswith(":"):
            if plain or name in pseudo:
                raise _malformed("pseudo header fields")
            pseudo[name] = value
        elif _NAME.fullmatch(name) is None:
            raise _malformed("a field name")
        elif name in _HOP_BY_HOP or (name == "te" and value != "trailers"):
            raise _malformed("connection-specific fields")
        else:
            plain.append((name, value))
    return pseudo, plain


def _content_length(fields: Fields) -> int:
    lengths = {value for name, value in fields if name == "content-length"}
    if not lengths:
        return -1
    length = lengths.pop()
    if lengths or not (length.isascii() and length.isdigit() and len(length) < 19):
        raise _malformed("content-length")
    return int(length)


def _words(error: HPACKError) -> str:
    """What is wrong, without the block, which the library quotes."""
    return str(error)[:_ERROR_WORDS_MAX]


def _malformed(words: str) -> StreamViolationError:
    return StreamViolationError(ErrorCode.PROTOCOL_ERROR, f"malformed headers: {words}")
