import pytest

from highwater.http2.errors import ConnectionViolationError, ErrorCode
from highwater.http2.frames import SETTING
from highwater.http2.settings import (
    ENABLE_PUSH,
    HEADER_TABLE_SIZE,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    LocalSettings,
    PeerSettings,
)


def payload(*pairs):
    return b"".join(SETTING.pack(*pair) for pair in pairs)


def applied(*pairs, from_server=True):
    peer = PeerSettings()
    peer.apply(payload(*pairs), from_server=from_server)
    return peer


def test_a_client_refuses_pushes_and_a_server_limits_streams():
    assert (ENABLE_PUSH, 0) in LocalSettings().pairs(client=True)
    assert (MAX_CONCURRENT_STREAMS, 7) in LocalSettings(streams_max=7).pairs(client=False)


@pytest.mark.parametrize("wrong", [{"stream_window": 65_534}, {"frame_bytes_max": 16_383},
                                   {"stream_window": 2 << 20, "connection_window": 1 << 20}])  # fmt: skip
def test_windows_and_frames_below_the_initial_ones_are_our_mistake(wrong):
    with pytest.raises(AssertionError):
        LocalSettings(**wrong)


def test_the_last_value_counts_and_unknown_ones_are_ignored():
    peer = applied(
        (INITIAL_WINDOW_SIZE, 1), (0x99, 5), (INITIAL_WINDOW_SIZE, 2), (MAX_FRAME_SIZE, 1 << 20)
    )
    assert (peer.initial_window, peer.frame_bytes_max, peer.received) == (2, 1 << 20, True)


def test_our_table_grows_no_larger_than_the_initial_one():
    assert applied((HEADER_TABLE_SIZE, 1 << 30)).header_table_bytes == 4096
    assert applied((HEADER_TABLE_SIZE, 0)).header_table_bytes == 0


@pytest.mark.parametrize(
    ("pair", "code"),
    [
        ((INITIAL_WINDOW_SIZE, 1 << 31), ErrorCode.FLOW_CONTROL_ERROR),
        ((MAX_FRAME_SIZE, 16_383), ErrorCode.PROTOCOL_ERROR),
        ((MAX_FRAME_SIZE, 1 << 24), ErrorCode.PROTOCOL_ERROR),
        ((ENABLE_PUSH, 1), ErrorCode.PROTOCOL_ERROR),
    ],
)
def test_values_out_of_range_end_the_connection(pair, code):
    with pytest.raises(ConnectionViolationError) as caught:
        applied(pair)
    assert caught.value.code is code


def test_a_client_may_allow_pushes():
    assert applied((ENABLE_PUSH, 1), from_server=False).received


def test_a_torn_setting_ends_the_connection():
    with pytest.raises(ConnectionViolationError) as caught:
        PeerSettings().apply(bytes(7), from_server=True)
    assert caught.value.code is ErrorCode.FRAME_SIZE_ERROR
