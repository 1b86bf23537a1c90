"""For any Produce frame, the learnt shape agrees with the codec or does not match."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.gateway.core.shape_frames import (
    learn_produce,
    matched_produce,
    matched_several,
    produce_frame,
    produce_meaning,
    produce_meaning_of_several,
)

VERSIONS = st.integers(3, 13)
"""Names of topics up to version 12, an id in 13."""
INT32 = st.integers(-(2**31), 2**31 - 1)
REPEATED = st.fixed_dictionaries(
    {
        "client_id": st.none() | st.text(max_size=20),
        "transactional_id": st.none() | st.text(max_size=20),
        "acks": st.sampled_from([-1, 0, 1, 300]),
        "timeout_ms": INT32,
        "topic": st.text(max_size=100),
    }
)
CHANGING = st.fixed_dictionaries(
    {
        "correlation_id": INT32,
        "partition": INT32,
        # A single byte is no batch, and is decoded by the codec.
        "records": st.binary(min_size=2, max_size=300),
    }
)


def zstd_is_refused_elsewhere(version, meaning):
    return version < 7 and len(meaning[-1]) > 22 and meaning[-1][22] & 7 == 4


@settings(max_examples=200, deadline=None)
@given(VERSIONS, REPEATED, CHANGING, CHANGING)
def test_a_shape_learnt_from_one_frame_matches_the_next(version, repeated, one, other):
    first = produce_frame(version, **repeated, **one)
    if zstd_is_refused_elsewhere(version, produce_meaning(first)):
        return
    shape = learn_produce(first)
    assert shape is not None
    following = produce_frame(version, **repeated, **other)
    meaning = produce_meaning(following)
    if not zstd_is_refused_elsewhere(version, meaning):
        assert matched_produce(shape, following) == meaning


@settings(max_examples=300, deadline=None)
@given(VERSIONS, REPEATED, CHANGING, st.data())
def test_a_changed_frame_does_not_match_or_means_what_the_codec_says(
    version, repeated, changing, data
):
    frame = produce_frame(version, **repeated, **changing)
    shape = learn_produce(frame)
    if shape is None:
        return
    changed = mutate(frame, data)
    if len(changed) < 8 or changed[:2] != frame[:2]:
        return  # Another API.
    found = matched_produce(shape, changed)
    assert found is None or found == produce_meaning(changed)


@settings(max_examples=300, deadline=None)
@given(VERSIONS, REPEATED, CHANGING, CHANGING, st.data())
def test_a_shape_learnt_from_a_changed_frame_agrees_with_the_codec(
    version, repeated, one, other, data
):
    changed = mutate(produce_frame(version, **repeated, **one), data)
    if len(changed) < 8 or changed[2:4] != version.to_bytes(2, "big"):
        return
    meaning = produce_meaning(changed)
    if meaning is None or not meaning[-1]:
        return
    shape = learn_produce(changed)
    if shape is None:
        return
    assert matched_produce(shape, changed) == meaning
    following = produce_frame(version, **repeated, **other)
    found = matched_produce(shape, following)
    assert found is None or found == produce_meaning(following)


SEVERAL = st.lists(st.tuples(INT32, st.binary(min_size=2, max_size=300)), min_size=1, max_size=5)


@settings(max_examples=200, deadline=None)
@given(st.integers(9, 13), REPEATED, CHANGING, CHANGING, SEVERAL, st.booleans())
def test_a_shape_matches_a_frame_for_several_partitions(
    version, repeated, one, other, others, from_several
):
    first = produce_frame(version, **repeated, **one, others=others if from_several else ())
    shape = learn_produce(first)
    assert shape is not None
    following = produce_frame(version, **repeated, **other, others=others)
    assert matched_several(shape, following) == produce_meaning_of_several(following)


@settings(max_examples=500, deadline=None)
@given(VERSIONS, REPEATED, CHANGING, SEVERAL, st.data())
def test_a_changed_frame_for_several_means_what_the_codec_says(
    version, repeated, changing, others, data
):
    frame = produce_frame(version, **repeated, **changing, others=others)
    changed = mutate(frame, data)
    if len(changed) < 8 or changed[2:4] != version.to_bytes(2, "big") or changed[:2] != b"\0\0":
        return
    meaning = produce_meaning_of_several(changed)
    for learnt_from in (frame, produce_frame(version, **repeated, **changing), changed):
        shape = learn_produce(learnt_from)
        if shape is None:
            continue
        found = matched_several(shape, changed)
        assert found is None or found == meaning
        found = matched_produce(shape, changed)
        assert found is None or (meaning is not None and found == (*meaning[:-1], *meaning[-1][0]))


def mutate(frame: bytearray, data: st.DataObject) -> bytearray:
    """The frame with a few bytes changed, removed or inserted, mostly near its ends."""
    changed = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed)))
        if data.draw(st.booleans()):
            at = max(0, len(changed) - data.draw(st.integers(0, 12)))
        end = min(len(changed), at + data.draw(st.integers(0, 4)))
        changed[at:end] = data.draw(st.binary(max_size=6))
    return changed
