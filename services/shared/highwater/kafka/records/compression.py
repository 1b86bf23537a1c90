"""The five compression codecs of record batches; the caller limits the decompressed size.

A payload of a few kilobytes can decompress to gigabytes. Every decompressor here stops as soon as
the caller's limit is passed; none trusts a size that the payload declares.
"""

import enum
import struct
import zlib
from typing import NoReturn

import cramjam
import lz4.frame  # type: ignore[import-untyped]

from highwater.kafka.errors import (
    CorruptCompressedDataError,
    DecompressedTooLargeError,
    UnknownCompressionError,
)
from highwater.kafka.primitives import Buffer


class Compression(enum.IntEnum):
    """Bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


GZIP_LEVEL_DEFAULT = -1
LZ4_LEVEL_DEFAULT = 9
ZSTD_LEVEL_DEFAULT = 3

XERIAL_MAGIC = b"\x82SNAPPY\x00"
"""The magic of snappy-java's framing around raw blocks; other clients send one raw block."""

_XERIAL_HEADER = struct.pack(">8sii", XERIAL_MAGIC, 1, 1)
_XERIAL_BLOCK = 32 * 1024
_GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
_GZIP_PIECE = 4096
"""Input bytes given to gzip in one call: what follows a member's end is copied, and there may be tens of
thousands of members."""
_STEP = 1024 * 1024
"""Output bytes asked of a decompressor in one call."""
_ZSTD_FIRST_GUESS = 64 * 1024
_ZSTD_BUFFER_FULL = "failed to write whole buffer"
_INT32 = struct.Struct(">i")


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress record bytes in the form that Kafka's Java client uses for this codec.

    `level` is gzip's, lz4's or zstd's, as in `compression.<codec>.level`; None is Kafka's default.
    """
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            packer = zlib.compressobj(
                GZIP_LEVEL_DEFAULT if level is None else level, wbits=_GZIP_WINDOW_BITS
            )
            return packer.compress(data) + packer.flush()
        case Compression.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Compression.LZ4:
            return bytes(
                lz4.frame.compress(
                    data,
                    # Kafka's default takes the fast compressor, whatever its number says
                    # (`Lz4BlockOutputStream`).
                    compression_level=0 if level in (None, LZ4_LEVEL_DEFAULT) else level,
                    block_linked=False,
                    block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                    store_size=False,
                )
            )
        case Compression.ZSTD:
            return bytes(
                cramjam.zstd.compress(data, level=ZSTD_LEVEL_DEFAULT if level is None else level)
            )
    raise UnknownCompressionError(f"unknown compression code {codec}")


def decompress(codec: int, data: Buffer, size_max: int) -> Buffer:
    """Decompress a batch's payload to at most `size_max` bytes.

    Raises DecompressedTooLargeError past the limit, CorruptCompressedDataError for bad data,
    UnknownCompressionError for codes above 4. Uncompressed data comes back as it is.
    """
    match codec:
        case Compression.NONE:
            if len(data) > size_max:
                _too_large(size_max)
            return data
        case Compression.GZIP:
            return _decompress_gzip(data, size_max)
        case Compression.SNAPPY:
            return _decompress_snappy(memoryview(data), size_max)
        case Compression.LZ4:
            return _decompress_lz4(data, size_max)
        case Compression.ZSTD:
            return _decompress_zstd(data, size_max)
    raise UnknownCompressionError(f"unknown compression code {codec}")


def _too_large(size_max: int) -> NoReturn:
    raise DecompressedTooLargeError(f"payload decompresses to more than {size_max} bytes")


def _decompress_gzip(data: Buffer, size_max: int) -> bytes:
    """Decompress one or more gzip members, as Java's GZIPInputStream does."""
    view = memoryview(data)
    parts: list[bytes] = []
    total = pos = 0
    try:
        while pos < len(view) or not pos:
            unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
            while not unpacker.eof:
                piece: Buffer = unpacker.unconsumed_tail
                if not piece:
                    piece = view[pos : pos + _GZIP_PIECE]
                    pos += len(piece)
                part = unpacker.decompress(piece, min(_STEP, size_max - total + 1))
                if part:
                    parts.append(part)
                    total += len(part)
                if total > size_max:
                    _too_large(size_max)
                if not part and not len(piece):
                    raise CorruptCompressedDataError("gzip data ends early")
            pos -= len(unpacker.unused_data)
    except zlib.error as error:
        raise CorruptCompressedDataError(f"gzip: {error}") from error
    return b"".join(parts)


def _compress_xerial(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for pos in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[pos : pos + _XERIAL_BLOCK]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, size_max: int) -> bytes:
    """Decompress snappy, framed by snappy-java or as one raw block (librdkafka, Go clients)."""
    if bytes(data[:8]) != XERIAL_MAGIC:
        return _decompress_snappy_block(data, size_max)
    parts: list[bytes] = []
    left = size_max
    pos = len(_XERIAL_HEADER)
    while pos < len(data):
        if len(data) - pos < 4:
            raise CorruptCompressedDataError("snappy frame ends inside a block length")
        (length,) = _INT32.unpack_from(data, pos)
        pos += 4
        if not 0 < length <= len(data) - pos:
            raise CorruptCompressedDataError(f"snappy block of impossible length {length}")
        part = _decompress_snappy_block(data[pos : pos + length], left)
        parts.append(part)
        left -= len(part)
        pos += length
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, size_max: int) -> bytes:
    """Decompress one raw block; the size it declares is checked before anything is allocated."""
    try:
        if cramjam.snappy.decompress_raw_len(block) > size_max:
            _too_large(size_max)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptCompressedDataError(f"snappy: {error}") from error


def _decompress_lz4(data: Buffer, size_max: int) -> bytes:
    """Decompress one LZ4 frame."""
    unpacker = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    total = 0
    rest: Buffer = data
    try:
        while not unpacker.eof:
            part = unpacker.decompress(rest, max_length=min(_STEP, size_max - total + 1))
            rest = b""
            parts.append(part)
            total += len(part)
            if total > size_max:
                _too_large(size_max)
            if not unpacker.eof and unpacker.needs_input:
                raise CorruptCompressedDataError("lz4 frame ends early")
    except RuntimeError as error:
        raise CorruptCompressedDataError(f"lz4: {error}") from error
    if unpacker.unused_data:
        raise CorruptCompressedDataError("bytes follow the lz4 frame")
    return b"".join(parts)


def _decompress_zstd(data: Buffer, size_max: int) -> memoryview:
    """Decompress zstd frames into a buffer that grows up to the limit.

    Streaming producers do not declare the content size, so the first buffer is a guess; each retry
    quadruples it, which costs at most a third more work than one pass into the final size. The
    decompressor's window is never larger than its output, so it all takes at most twice `size_max`
    of memory, whatever window (up to 128 MiB) a frame asks for.
    """
    capacity = min(size_max + 1, max(_ZSTD_FIRST_GUESS, 4 * len(data)))
    while True:
        out = bytearray(capacity)
        try:
            size = cramjam.zstd.decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if str(error) != _ZSTD_BUFFER_FULL:
                raise CorruptCompressedDataError(f"zstd: {error}") from error
            if capacity > size_max:
                _too_large(size_max)
            capacity = min(size_max + 1, 4 * capacity)
            del out  # Free it before the next one is allocated.
            continue
        if size > size_max:
            _too_large(size_max)
        return memoryview(out)[:size]
