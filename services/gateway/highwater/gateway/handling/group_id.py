"""Reads the group id, which determines the coordinator, without decoding the whole request.

It is the first field of all group requests; in JoinGroup the two timeouts follow, and in
OffsetFetch v8 it is the first field of each group in a list.
"""

from struct import Struct
from typing import Final

from highwater.kafka.errors import InvalidLengthError, InvalidValueError, TruncatedError
from highwater.kafka.primitives import STRING_BYTES_MAX, read_uvarint

_unpack_int16: Final = Struct(">h").unpack_from
_unpack_int32: Final = Struct(">i").unpack_from

INT16_BYTES: Final = 2
INT32_BYTES: Final = 4


def read_group_id(body: memoryview, *, flexible: bool, pos: int = 0) -> tuple[str, int]:
    """Returns the string at `pos` and the position behind it; raises DecodeError."""
    end = len(body)
    if flexible:
        try:
            length, pos = read_uvarint(body, pos)
        except IndexError as error:
            raise TruncatedError("group id is cut off") from error
        length -= 1
    else:
        if end - pos < INT16_BYTES:
            raise TruncatedError("group id is cut off")
        length = _unpack_int16(body, pos)[0]
        pos += INT16_BYTES
    if not 0 <= length <= STRING_BYTES_MAX:
        raise InvalidLengthError(f"group id has length {length}")
    stop = pos + length
    if stop > end:
        raise TruncatedError("group id runs past the end")
    try:
        return str(body[pos:stop], "utf-8"), stop
    except UnicodeDecodeError as error:
        raise InvalidValueError("group id is not UTF-8") from error


def read_int32(body: memoryview, pos: int) -> tuple[int, int]:
    """Returns the integer at `pos` and the position behind it; raises DecodeError."""
    if len(body) - pos < INT32_BYTES:
        raise TruncatedError("request ends early")
    value: int = _unpack_int32(body, pos)[0]
    return value, pos + INT32_BYTES


def read_count(body: memoryview) -> tuple[int, int]:
    """Returns the length of a compact array at the start, and the position of its first element."""
    try:
        count, pos = read_uvarint(body, 0)
    except IndexError as error:
        raise TruncatedError("request ends early") from error
    if not count:
        raise InvalidLengthError("the list of groups is null")
    return count - 1, pos
