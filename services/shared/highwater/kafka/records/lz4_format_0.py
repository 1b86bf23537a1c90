"""LZ4 inside messages of format 0, whose frames have a wrong header checksum.

Kafka before 0.10 computed the checksum of the frame descriptor from the frame's magic number on,
instead of from the descriptor on. Clients of that time take no other frame, and so Kafka reads
format 0 without looking at this checksum and writes it wrongly there (KIP-57, KAFKA-3160;
`Lz4BlockInputStream` and `Lz4BlockOutputStream` with their flags for broken checksums).
Format of frames: the LZ4 Frame Format Description.
"""

from typing import Final

from highwater.kafka.errors import CorruptCompressedDataError
from highwater.kafka.primitives import Buffer
from highwater.kafka.records.compression import Compression, compress, decompress

_DESCRIPTOR_AT: Final = 4
_CONTENT_SIZE_BIT: Final = 0x08
_DICTIONARY_BIT: Final = 0x01

_WORD: Final = 0xFFFF_FFFF
_PRIME_1: Final = 0x9E3779B1
_PRIME_2: Final = 0x85EBCA77
_PRIME_3: Final = 0xC2B2AE3D
_PRIME_4: Final = 0x27D4EB2F
_PRIME_5: Final = 0x165667B1
_SHORT: Final = 16
"""xxHash has another way for longer input, which no descriptor is."""


def compress_lz4(data: Buffer) -> bytes:
    """One frame with the checksum that readers of format 0 expect."""
    frame = bytearray(compress(Compression.LZ4, data))
    at = _checksum_at(frame)
    frame[at] = _checksum(frame[:at])
    return bytes(frame)


def decompress_lz4(data: Buffer, size_max: int) -> Buffer:
    """The content of one frame, whatever its header checksum; errors as those of `decompress`."""
    frame = bytearray(data)
    at = _checksum_at(frame)
    frame[at] = _checksum(frame[_DESCRIPTOR_AT:at])
    return decompress(Compression.LZ4, frame, size_max)


def _checksum_at(frame: bytearray) -> int:
    """Where the header checksum is: behind flags, block descriptor and optional fields."""
    if len(frame) <= _DESCRIPTOR_AT:
        raise CorruptCompressedDataError("lz4 frame ends in its magic number")
    flags = frame[_DESCRIPTOR_AT]
    at = _DESCRIPTOR_AT + 2
    if flags & _CONTENT_SIZE_BIT:
        at += 8
    if flags & _DICTIONARY_BIT:
        raise CorruptCompressedDataError("lz4 frame needs a dictionary")
    if at >= len(frame):
        raise CorruptCompressedDataError("lz4 frame ends in its descriptor")
    return at


def _checksum(descriptor: bytearray) -> int:
    return xxh32_of_short(descriptor) >> 8 & 0xFF


def xxh32_of_short(data: Buffer) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes (xxHash fast digest algorithm, section XXH32)."""
    size = len(data)
    assert size < _SHORT
    acc = _PRIME_5 + size & _WORD
    whole = size - size % 4
    for pos in range(0, whole, 4):
        acc = acc + int.from_bytes(data[pos : pos + 4], "little") * _PRIME_3 & _WORD
        acc = _rotated(acc, 17) * _PRIME_4 & _WORD
    for byte in bytes(data[whole:]):
        acc = acc + byte * _PRIME_5 & _WORD
        acc = _rotated(acc, 11) * _PRIME_1 & _WORD
    acc ^= acc >> 15
    acc = acc * _PRIME_2 & _WORD
    acc ^= acc >> 13
    acc = acc * _PRIME_3 & _WORD
    return acc ^ acc >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _WORD
