"""Record sets for Produce: valid ones, and the ways in which one can be invalid."""

from __future__ import annotations

import gzip
import random
import struct
import time
from functools import cache

import zstandard
from crc32c import crc32c

from highwater.kafka.records.builder import RecordBatchBuilder
from highwater.kafka.records.compression import Compression

_CRC_AT = 17
_CRC_FROM = 21
_HEADER_SIZE = 61
_ATTRIBUTES_AT = 21
_SMALL_BOMB_BYTES = 16 << 20

# Where the fields of a batch header lie, with the form of each.
_HEADER_FIELDS = (
    (0, ">q"), (8, ">i"), (12, ">i"), (16, ">b"), (21, ">h"), (23, ">i"), (27, ">q"), (35, ">q"),
    (43, ">q"), (51, ">h"), (53, ">i"), (57, ">i"),
)  # fmt: skip
_INTERESTING = (0, 1, -1, 2, 127, -128)
_WIDE = (2**31 - 1, -(2**31), 2**15 - 1)


def random_records(chance: random.Random) -> bytes:
    """A record set: half of them good, half broken in one way."""
    good = _good_batch(chance)
    match chance.randrange(10):
        case 0:
            return with_crc(_header_changed(good, chance))
        case 1:
            return _header_changed(good, chance)
        case 2:
            return good[: chance.randrange(len(good))]
        case 3:
            return chance.randbytes(chance.choice((0, 1, 12, 61, 200)))
        case 4:
            broken = bytearray(good)
            broken[chance.randrange(_HEADER_SIZE, len(broken))] ^= 1 << chance.randrange(8)
            return with_crc(bytes(broken))
        case _:
            return good if chance.random() < 0.97 else bomb(chance.choice(("gzip", "zstd")))


def with_crc(batch: bytes) -> bytes:
    """The batch with a correct CRC."""
    if len(batch) < _CRC_FROM:
        return batch
    changed = bytearray(batch)
    struct.pack_into(">I", changed, _CRC_AT, crc32c(bytes(changed[_CRC_FROM:])))
    return bytes(changed)


@cache
def bomb(codec: str, size: int = _SMALL_BOMB_BYTES) -> bytes:
    """A batch with correct header and CRC whose payload decompresses to `size` zero bytes."""
    zeros = bytes(size)
    if codec == "gzip":
        payload, bits = gzip.compress(zeros, 9), Compression.GZIP
    else:
        payload, bits = zstandard.ZstdCompressor(level=19).compress(zeros), Compression.ZSTD
    builder = RecordBatchBuilder()
    builder.append(key=None, value=b"x", timestamp_ms=int(time.time() * 1000))
    header = bytearray(builder.build()[:_HEADER_SIZE])
    struct.pack_into(">i", header, 8, _HEADER_SIZE - 12 + len(payload))
    struct.pack_into(">h", header, _ATTRIBUTES_AT, int(bits))
    return with_crc(bytes(header) + payload)


def _good_batch(chance: random.Random) -> bytes:
    idempotent = chance.random() < 0.3
    builder = RecordBatchBuilder(
        compression=chance.choice(list(Compression)),
        producer_id=chance.choice((0, 1, 1_000, 2**62)) if idempotent else -1,
        producer_epoch=chance.choice((0, 1, 2**15 - 1)) if idempotent else -1,
        base_sequence=chance.choice((0, 1, 2, 2**31 - 1)) if idempotent else -1,
        control=chance.random() < 0.05,
        transactional=idempotent and chance.random() < 0.1,
    )
    for _ in range(chance.randint(1, 4)):
        builder.append(
            key=chance.choice((None, b"", b"key")),
            value=chance.choice((None, b"", b"value" * 20)),
            timestamp_ms=chance.choice((int(time.time() * 1000), 0, -1)),
            headers=chance.choice(((), (("h", b"v"), ("h", None)))),
        )
    return builder.build()


def _header_changed(batch: bytes, chance: random.Random) -> bytes:
    position, form = chance.choice(_HEADER_FIELDS)
    values = _INTERESTING if form == ">b" else (_INTERESTING + _WIDE)
    value = chance.choice(values)
    if form == ">h":
        value = max(-(2**15), min(2**15 - 1, value))
    changed = bytearray(batch)
    struct.pack_into(form, changed, position, value)
    return bytes(changed)
