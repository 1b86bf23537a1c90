"""Every codec against other libraries, and the limit on decompressed bytes."""

import gzip
import subprocess
import sys
import tracemalloc
import zlib
from types import SimpleNamespace
from typing import Any

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard
from aiokafka import codec as kafka_codec  # type: ignore[import-untyped]

from highwater.kafka.errors import (
    CorruptCompressedDataError,
    DecompressedTooLargeError,
    UnknownCompressionError,
)
from highwater.kafka.records.compression import Compression, compress, decompress

CODECS = list(Compression)
SAMPLES = [b"", b"x", b"highwater " * 10_000, bytes(range(256)) * 700]
MIB = 1024 * 1024


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("sample", SAMPLES, ids=len)
def test_round_trip(codec: Compression, sample: bytes) -> None:
    packed = compress(codec, memoryview(sample))
    assert bytes(decompress(codec, packed, len(sample))) == sample
    assert bytes(decompress(codec, memoryview(bytearray(packed)), MIB)) == sample


@pytest.mark.parametrize("sample", SAMPLES[1:], ids=len)
def test_other_libraries_read_what_we_write(sample: bytes) -> None:
    assert gzip.decompress(compress(Compression.GZIP, sample)) == sample
    assert bytes(kafka_codec.snappy_decode(compress(Compression.SNAPPY, sample))) == sample
    assert lz4.frame.decompress(compress(Compression.LZ4, sample)) == sample
    assert bytes(cramjam.zstd.decompress(compress(Compression.ZSTD, sample))) == sample


@pytest.mark.parametrize("sample", SAMPLES[1:], ids=len)
def test_we_read_what_other_libraries_write(sample: bytes) -> None:
    raw_snappy = bytes(cramjam.snappy.compress_raw(sample))
    xerial = kafka_codec.snappy_encode(sample)
    assert bytes(decompress(Compression.GZIP, gzip.compress(sample), MIB)) == sample
    assert bytes(decompress(Compression.SNAPPY, raw_snappy, MIB)) == sample
    assert bytes(decompress(Compression.SNAPPY, xerial, MIB)) == sample
    assert bytes(decompress(Compression.LZ4, lz4.frame.compress(sample), MIB)) == sample
    assert bytes(decompress(Compression.ZSTD, kafka_codec.zstd_encode(sample), MIB)) == sample


def test_concatenated_gzip_members_are_read() -> None:
    data = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(Compression.GZIP, data, 100) == b"one two"


def test_many_gzip_members_cost_no_more_than_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows a member is copied at its end: so no call may get much of it."""
    given: list[int] = []

    class Counted:
        def __init__(self, **options: int) -> None:
            self._unpacker = zlib.decompressobj(**options)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._unpacker, name)

        def decompress(self, data: bytes, size_max: int) -> bytes:
            given.append(len(data))
            return self._unpacker.decompress(data, size_max)

    fake = SimpleNamespace(decompressobj=Counted, error=zlib.error)
    monkeypatch.setattr("highwater.kafka.records.compression.zlib", fake)
    data = gzip.compress(b"") * 1_000 + gzip.compress(b"x" * 100_000)
    assert decompress(Compression.GZIP, data, 1 << 20) == b"x" * 100_000
    assert sum(given) < 1_100 * 4096


@pytest.mark.parametrize("codec", CODECS)
def test_limit_is_exact(codec: Compression) -> None:
    sample = b"abc" * 50_000
    packed = compress(codec, sample)
    assert len(decompress(codec, packed, len(sample))) == len(sample)
    with pytest.raises(DecompressedTooLargeError):
        decompress(codec, packed, len(sample) - 1)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_bomb_is_stopped_while_it_unpacks(codec: Compression) -> None:
    bomb = compress(codec, bytes(64 * MIB))
    assert len(bomb) < 4 * MIB
    tracemalloc.start()
    try:
        with pytest.raises(DecompressedTooLargeError):
            decompress(codec, bomb, 2 * MIB)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB


_MEASURE = """
import sys
from pathlib import Path
from highwater.kafka.errors import DecompressedTooLargeError
from highwater.kafka.records.compression import decompress

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

bomb = sys.stdin.buffer.read()
before = peak()
try:
    decompress(int(sys.argv[1]), bomb, int(sys.argv[2]))
except DecompressedTooLargeError:
    print(peak() - before)
"""


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_decompression_bomb_takes_bounded_memory(codec: Compression) -> None:
    """Includes the decompressors' own memory; for zstd with the widest window that it accepts."""
    limit, size = 16 * MIB, 256 * MIB
    if codec == Compression.ZSTD:
        parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=27)
        packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        piece = bytes(MIB)
        parts = [packer.compress(piece) for _ in range(size // MIB)]
        bomb = b"".join(parts) + packer.flush()
        assert zstandard.get_frame_parameters(bomb).window_size == 128 * MIB
    else:
        bomb = compress(codec, bytes(size))
    measured = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(int(codec)), str(limit)],
        input=bomb, capture_output=True, check=True, timeout=30,
    )  # fmt: skip
    assert limit // 2 < int(measured.stdout) < 2 * limit + 8 * MIB


def test_raw_snappy_that_declares_too_much_is_refused_before_unpacking() -> None:
    declared = b"\xff\xff\xff\xff\x0f" + b"abc"
    with pytest.raises(DecompressedTooLargeError):
        decompress(Compression.SNAPPY, declared, MIB)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_truncated_and_garbled_data_is_a_typed_error(codec: Compression) -> None:
    packed = compress(codec, b"some payload " * 100)
    for cut in range(len(packed)):
        try:
            out = decompress(codec, packed[:cut], MIB)
        except CorruptCompressedDataError:
            continue
        # A snappy stream may end between frames; the part before is then whole.
        assert codec == Compression.SNAPPY
        assert out == b""
    for position in range(min(len(packed), 40)):
        garbled = bytearray(packed)
        garbled[position] ^= 0xFF
        try:
            decompress(codec, garbled, MIB)
        except (CorruptCompressedDataError, DecompressedTooLargeError):
            continue


def test_garbage_behind_the_data_is_refused() -> None:
    for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
        with pytest.raises(CorruptCompressedDataError):
            decompress(codec, compress(codec, b"data") + b"garbage", MIB)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codes(codec: int) -> None:
    with pytest.raises(UnknownCompressionError):
        decompress(codec, b"", 10)
    with pytest.raises(UnknownCompressionError):
        compress(codec, b"")
