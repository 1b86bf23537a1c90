"""Any bytes decode to a message or raise DecodeError, and memory stays small."""

import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.kafka.errors import DecodeError, InvalidLengthError
from highwater.kafka.framing import decode_request_header
from highwater.kafka.messages import metadata
from highwater.kafka.primitives import REQUEST_ELEMENTS_MAX, uvarint
from highwater.kafka.records.batch import iter_batches
from highwater.kafka.records.record import read_records
from highwater.kafka.records.validation import validate_deep, validate_header
from tests.property.kafka.random_messages import Case, all_cases

CASES = all_cases()
REQUESTS = [case for case in CASES if case.message.kind == "request"]
CUTS_MAX = 120
MUTATIONS = 60
PEAK_BYTES_MAX = 1 << 20


def decode_or_refuse(case: Case, data: bytes) -> bool:
    """Whether the bytes decode; any error but DecodeError fails the test."""
    try:
        case.decode(memoryview(data))
    except DecodeError:
        return False
    return True


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_cut_is_refused_and_mutations_never_crash(case: Case) -> None:
    rng = Random(str(case))
    data = case.encode(case.random(rng))
    cuts = range(len(data))
    for cut in rng.sample(cuts, min(CUTS_MAX, len(cuts))):
        assert not decode_or_refuse(case, data[:cut]), f"cut at {cut} of {len(data)}"
    for _ in range(MUTATIONS if data else 0):
        mutated = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            mutated[rng.randrange(len(mutated))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        decode_or_refuse(case, bytes(mutated))


@pytest.mark.parametrize("case", [case for case in CASES if case.flexible], ids=str)
def test_unknown_tags_are_skipped(case: Case) -> None:
    message = type(case.random(Random(1)))()
    data = case.encode(message)
    assert data.endswith(b"\0")
    tagged = data[:-1] + b"\x02" + uvarint(9_999) + b"\x03abc" + uvarint(100_000) + b"\x00"
    assert case.decode(tagged) == message


@pytest.mark.parametrize("filler", [0x00, 0x01, 0x7F, 0x80, 0xFF])
def test_lengths_from_filler_bytes_allocate_nothing(filler: int) -> None:
    data = bytes([filler]) * 256
    for case in CASES:
        decode_or_refuse(case, data)
    tracemalloc.start()
    try:
        for case in CASES:
            decode_or_refuse(case, data)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < PEAK_BYTES_MAX


def test_the_number_of_elements_in_a_request_is_limited() -> None:
    count = REQUEST_ELEMENTS_MAX + 1
    topics = count.to_bytes(4, "big") + b"\x00\x01a" * count
    with pytest.raises(InvalidLengthError):
        metadata.decode_request(topics, 0, 1)
    fewer = (1_000).to_bytes(4, "big") + b"\x00\x01a" * 1_000
    assert len(metadata.decode_request(fewer, 0, 1).topics) == 1_000


@settings(max_examples=300, deadline=None)
@given(index=st.integers(0, len(REQUESTS) - 1), data=st.binary(max_size=300))
def test_random_bytes(index: int, data: bytes) -> None:
    decode_or_refuse(REQUESTS[index], data)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=100))
def test_random_headers(data: bytes) -> None:
    try:
        header = decode_request_header(data)
    except DecodeError:
        return
    assert 10 <= header.body_pos <= len(data)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=300), magic=st.booleans())
def test_random_batches(data: bytes, magic: bool) -> None:
    if magic and len(data) > 61:
        length = (len(data) - 12).to_bytes(4, "big")
        data = data[:8] + length + data[12:16] + b"\x02" + data[17:]
    validate_header(data, 0, len(data))
    try:
        for batch in iter_batches(data):
            validate_deep(batch, decompressed_size_max=10_000)
            list(read_records(batch, 10_000))
    except DecodeError:
        return
