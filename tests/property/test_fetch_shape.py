"""For any Fetch frame, the learnt shape agrees with the codec or does not match."""

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.gateway.core.fetch_shape import match
from tests.property.test_produce_shape import mutate
from tests.unit.gateway.core.shape_frames import fetch_frame, fetch_meaning, learn_fetch

VERSIONS = st.integers(4, 18)
"""Names of topics up to version 12, ids from 13 on."""
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
REPEATED = st.fixed_dictionaries(
    {
        "client_id": st.none() | st.text(max_size=20),
        "topic": st.text(max_size=100),
        "rack_id": st.text(max_size=10),
        "max_wait_ms": INT32,
        "min_bytes": INT32,
        "max_bytes": INT32,
        "isolation_level": st.integers(-128, 127),
    }
)
SMALL = st.integers(-1, 3)


@st.composite
def changing(draw, version):
    """The fields that differ from one request of a consumer to the next."""
    asked = {
        "correlation_id": draw(INT32),
        "partition": draw(SMALL | INT32),
        "fetch_offset": draw(SMALL | INT64),
        "partition_max_bytes": draw(SMALL | INT32),
    }
    if version >= 9:
        asked["current_leader_epoch"] = draw(SMALL | INT32)
    if version >= 12:
        asked["last_fetched_epoch"] = draw(SMALL | INT32)
    return asked


@settings(max_examples=300, deadline=None)
@given(st.data(), VERSIONS, REPEATED)
def test_a_shape_learnt_from_one_frame_matches_the_next(data, version, repeated):
    first = fetch_frame(version, **repeated, **data.draw(changing(version)))
    shape = learn_fetch(first)
    if shape is None:
        return  # Two small numbers are equal by chance.
    following = fetch_frame(version, **repeated, **data.draw(changing(version)))
    assert match(shape, first) == fetch_meaning(first)[-1]
    assert match(shape, following) == fetch_meaning(following)[-1]


@settings(max_examples=400, deadline=None)
@given(st.data(), VERSIONS, REPEATED)
def test_a_changed_frame_does_not_match_or_means_what_the_codec_says(data, version, repeated):
    frame = fetch_frame(version, **repeated, **data.draw(changing(version)))
    shape = learn_fetch(frame)
    if shape is None:
        return
    changed = mutate(frame, data)
    if len(changed) < 8 or changed[:4] != frame[:4]:  # Another API or version.
        return
    found = match(shape, changed)
    if found is not None:
        meaning = fetch_meaning(changed)
        assert meaning is not None
        assert meaning[:-1] == fetch_meaning(frame)[:-1]
        assert meaning[-1] == found


@settings(max_examples=300, deadline=None)
@given(st.data(), VERSIONS, REPEATED)
def test_a_shape_learnt_from_a_changed_frame_agrees_with_the_codec(data, version, repeated):
    changed = mutate(fetch_frame(version, **repeated, **data.draw(changing(version))), data)
    if len(changed) < 8 or changed[2:4] != version.to_bytes(2, "big"):
        return
    meaning = fetch_meaning(changed)
    shape = None if meaning is None else learn_fetch(changed)
    if shape is not None:
        assert match(shape, changed) == meaning[-1]
