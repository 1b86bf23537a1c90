import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.gateway.handling.group_id import read_count, read_group_id, read_int32
from highwater.kafka.errors import DecodeError
from highwater.kafka.messages import heartbeat, offset_fetch

TEXT = st.text(max_size=300).filter(lambda text: text.isprintable())


@given(TEXT)
def test_reads_what_the_codec_writes(group_id):
    request = heartbeat.HeartbeatRequest(group_id, 3, "m")
    for version in range(5):
        body = memoryview(heartbeat.encode_request(request, version))
        found, pos = read_group_id(body, flexible=version >= heartbeat.FLEXIBLE_FROM)
        assert found == group_id
        assert read_int32(body, pos)[0] == 3


@given(TEXT, st.integers(min_value=1, max_value=200))
def test_reads_the_first_of_several_groups(group_id, count):
    group = offset_fetch.OffsetFetchRequestOffsetFetchRequestGroup(group_id, topics=None)
    request = offset_fetch.OffsetFetchRequest(groups=[group] * count)
    body = memoryview(offset_fetch.encode_request(request, 8))
    found, pos = read_count(body)
    assert found == count
    assert read_group_id(body, flexible=True, pos=pos)[0] == group_id


@given(st.binary(max_size=40), st.booleans())
def test_any_bytes_are_read_or_refused(data, flexible):
    body = memoryview(data)
    try:
        group_id, pos = read_group_id(body, flexible=flexible)
        read_int32(body, pos)
    except DecodeError:
        pass
    else:
        assert len(group_id.encode()) <= pos <= len(data)
    try:
        count, _ = read_count(body)
    except DecodeError:
        pass
    else:
        assert count >= 0


@pytest.mark.parametrize(
    ("data", "flexible"),
    [
        ("", False),
        ("00", False),
        ("ffff", False),
        ("0003 6162", False),
        ("0002 fffe", False),
        ("", True),
        ("00", True),
        ("04 6162", True),
        ("ffffffffff7f", True),
        ("81808004", True),
    ],
)
def test_malformed_ids(data, flexible):
    with pytest.raises(DecodeError):
        read_group_id(memoryview(bytes.fromhex(data)), flexible=flexible)


def test_malformed_lists():
    with pytest.raises(DecodeError):
        read_count(memoryview(b""))
    with pytest.raises(DecodeError):
        read_count(memoryview(b"\0"))
    assert read_count(memoryview(b"\1")) == (0, 1)
