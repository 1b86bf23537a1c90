"""The short way for Produce reads the same as the codec, or nothing."""

import pytest

from highwater.gateway.core.produce_shape import (
    FLEXIBLE_FROM,
    PARTITIONS_MAX,
    match,
    match_several,
)
from tests.unit.gateway.core.shape_frames import (
    learn_produce,
    matched_produce,
    matched_several,
    produce_frame,
    produce_meaning,
    produce_meaning_of_several,
)

VERSIONS = range(3, 14)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nbytes", [2, 61, 126, 127, 128, 16_382, 16_383, 16_384, 2_097_151])
def test_other_partition_records_and_correlation_id_match(version, nbytes):
    shape = learn_produce(produce_frame(version, records=b"a" * 100))
    assert shape is not None
    frame = produce_frame(version, correlation_id=-5, partition=70_000, records=b"b" * nbytes)
    assert matched_produce(shape, frame) == produce_meaning(frame)
    assert learn_produce(frame) is not None, "whatever its length, it can be learnt from"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "other",
    [
        {"client_id": "clienu"},
        {"client_id": None},
        {"acks": -1},
        {"timeout_ms": 30_001},
        {"topic": "orderz"},
        {"topic": "order"},
        {"transactional_id": "t"},
        {"records": b""},
    ],
)
def test_a_difference_in_any_other_field_does_not_match(version, other):
    shape = learn_produce(produce_frame(version))
    assert match(shape, produce_frame(version, **other)) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_null_records_do_not_match(version):
    assert (
        match(learn_produce(produce_frame(version)), produce_frame(version, records=None)) is None
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_truncated_or_longer_frame_does_not_match(version):
    frame = produce_frame(version)
    shape = learn_produce(frame)
    for size in range(8, len(frame)):
        assert match(shape, frame[:size]) is None
    assert match(shape, frame + b"\0") is None


@pytest.mark.parametrize("version", VERSIONS)
def test_zstd_takes_the_long_way_in_versions_that_do_not_allow_it(version):
    zstd = bytearray(70)
    zstd[22] = 4
    shape = learn_produce(produce_frame(version))
    assert (match(shape, produce_frame(version, records=bytes(zstd))) is None) == (version < 7)


@pytest.mark.parametrize("version", range(FLEXIBLE_FROM, 14))
def test_tagged_fields_at_the_end_are_not_learnt_and_do_not_match(version):
    plain = produce_frame(version)
    shape = learn_produce(plain)
    # Instead of the request's empty tag section, one unknown tag without bytes.
    tagged = plain[:-1] + b"\x01\x63\x00"
    assert produce_meaning(tagged) == produce_meaning(plain)
    assert learn_produce(tagged) is None
    assert match(shape, tagged) is None


@pytest.mark.parametrize("version", range(FLEXIBLE_FROM, 14))
def test_an_endless_varint_length_does_not_match(version):
    shape = learn_produce(produce_frame(version))
    head = produce_frame(version)[: shape.body_at + 4]
    assert match(shape, head + b"\xff" * 20) is None
    assert match(shape, head + b"\x80" * 4 + b"\0" * 20) is None


@pytest.mark.parametrize("version", range(FLEXIBLE_FROM, 14))
@pytest.mark.parametrize("length", [b"\x81\x80\x00", b"\x81\x80\x80\x80\x00", b"\x80\x80\x00"])
def test_an_empty_batch_with_an_overlong_varint_length_does_not_match(version, length):
    """Holds count the bytes of batches, so an empty batch would be forgotten."""
    shape = learn_produce(produce_frame(version))
    head = produce_frame(version)[: shape.body_at + 4]
    assert match(shape, head + length + b"\0\0\0") is None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_transactional_id_belongs_to_the_shape(version):
    shape = learn_produce(produce_frame(version, transactional_id="payments"))
    same = produce_frame(version, transactional_id="payments", partition=3, records=b"b" * 90)
    assert matched_produce(shape, same) == produce_meaning(same)
    for other in (None, "", "payment", "paymentz"):
        assert match(shape, produce_frame(version, transactional_id=other)) is None


FLEXIBLE = range(FLEXIBLE_FROM, 14)
TWO = [(7, b"c" * 90)]
"""Beside the partition that each frame has."""


@pytest.mark.parametrize("version", FLEXIBLE)
@pytest.mark.parametrize(
    "others",
    [TWO, [(70_000, b"c" * 126), (0, b"d" * 127)], [(1, b"e" * 16_383), (2, b"f" * 16_384)]],
)
def test_one_shape_reads_one_partition_and_several(version, others):
    one, several = produce_frame(version), produce_frame(version, others=others, correlation_id=-5)
    for shape in (learn_produce(one), learn_produce(several)):
        assert matched_produce(shape, one) == produce_meaning(one)
        assert matched_several(shape, several) == produce_meaning_of_several(several)
        assert match(shape, several) is None
        assert match_several(shape, one) is None


@pytest.mark.parametrize("version", range(3, FLEXIBLE_FROM))
def test_older_versions_are_read_by_the_codec_if_they_have_several(version):
    frame = produce_frame(version, others=TWO)
    assert learn_produce(frame) is None
    assert match_several(learn_produce(produce_frame(version)), frame) is None


@pytest.mark.parametrize("version", FLEXIBLE)
@pytest.mark.parametrize(
    "other",
    [
        {"client_id": "clienu"},
        {"acks": -1},
        {"timeout_ms": 30_001},
        {"topic": "orderz"},
        {"transactional_id": "t"},
        {"records": b""},
        {"others": [(7, b"")]},
        {"others": [(7, None)]},
    ],
)
def test_a_difference_in_any_other_field_of_several_does_not_match(version, other):
    shape = learn_produce(produce_frame(version, others=TWO))
    assert match_several(shape, produce_frame(version, **{"others": TWO, **other})) is None


@pytest.mark.parametrize("version", FLEXIBLE)
def test_a_truncated_or_longer_frame_of_several_does_not_match(version):
    frame = produce_frame(version, others=TWO)
    shape = learn_produce(frame)
    for size in range(8, len(frame)):
        assert match_several(shape, frame[:size]) is None
    assert match_several(shape, frame + b"\0") is None


@pytest.mark.parametrize("version", FLEXIBLE)
def test_several_have_a_count_of_one_byte(version):
    places = [(number, b"b" * 2) for number in range(1, PARTITIONS_MAX + 1)]
    most, too_many = (produce_frame(version, others=others) for others in (places[:-1], places))
    shape = learn_produce(most)
    assert matched_several(shape, most) == produce_meaning_of_several(most)
    assert match_several(shape, too_many) is None


@pytest.mark.parametrize("version", FLEXIBLE)
def test_tagged_fields_of_a_partition_are_not_learnt_and_do_not_match(version):
    plain = produce_frame(version, others=TWO)
    shape = learn_produce(plain)
    # In the last partition, one unknown tag without bytes.
    tagged = plain[:-3] + b"\x01\x63\x00" + plain[-2:]
    assert produce_meaning_of_several(tagged) == produce_meaning_of_several(plain)
    assert learn_produce(tagged) is None
    assert match_several(shape, tagged) is None
