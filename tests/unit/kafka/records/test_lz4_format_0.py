"""LZ4 frames whose header checksum is the one of Kafka before 0.10."""

import lz4.frame
import pytest

from highwater.kafka.errors import CorruptCompressedDataError, DecompressedTooLargeError
from highwater.kafka.records.compression import Compression, compress, decompress
from highwater.kafka.records.lz4_format_0 import compress_lz4, decompress_lz4, xxh32_of_short

DATA = b"some text " * 1000


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0x02CC5D05),
        (b"a", 0x550D7456),
        (b"abc", 0x32D153FF),
    ],
)
def test_the_published_digests(data, digest):
    assert xxh32_of_short(data) == digest


@pytest.mark.parametrize("sized", [False, True])
def test_the_checksum_of_the_library(sized):
    frame = lz4.frame.compress(DATA, store_size=sized)
    at = 14 if sized else 6
    assert frame[at] == xxh32_of_short(frame[4:at]) >> 8 & 0xFF


def test_the_header_that_kafka_0_9_writes():
    assert compress_lz4(DATA)[:7].hex() == "04224d1860401a"
    with pytest.raises(CorruptCompressedDataError):
        decompress(Compression.LZ4, compress_lz4(DATA), len(DATA))


@pytest.mark.parametrize("sized", [False, True])
def test_reads_frames_whatever_their_checksum(sized):
    frame = bytearray(lz4.frame.compress(DATA, store_size=sized))
    for checksum in (0, 26, 130, 255):
        frame[14 if sized else 6] = checksum
        assert decompress_lz4(frame, len(DATA)) == DATA
    assert decompress_lz4(compress_lz4(DATA), len(DATA)) == DATA
    assert decompress_lz4(compress(Compression.LZ4, DATA), len(DATA)) == DATA


def test_the_limit():
    with pytest.raises(DecompressedTooLargeError):
        decompress_lz4(compress_lz4(DATA), len(DATA) - 1)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x04\x22\x4d\x18",
        b"\x04\x22\x4d\x18\x60\x40",
        b"\x04\x22\x4d\x18\x61\x40" + bytes(20),
    ],
)
def test_cut_off_or_with_a_dictionary(frame):
    with pytest.raises(CorruptCompressedDataError):
        decompress_lz4(frame, 100)
