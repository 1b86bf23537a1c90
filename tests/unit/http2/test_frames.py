from highwater.http2.frames import (
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    GOAWAY_WORDS_MAX,
    HEADERS,
    frame,
    goaway_frame,
    header_frames,
    ping_frame,
    reset_frame,
    settings_frame,
    window_update_frame,
)
from tests.support.http2_wire import frames_of


def test_a_frame_is_nine_bytes_and_its_payload():
    assert frame(0x6, 0x1, 5, b"abc") == b"\x00\x00\x03\x06\x01\x00\x00\x00\x05abc"


def test_control_frames_have_the_layout_of_the_rfc():
    assert settings_frame([(4, 65536)]) == b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\x01\0\0"
    assert ping_frame(b"12345678", ack=True) == b"\0\0\x08\x06\x01\0\0\0\x0012345678"
    assert window_update_frame(3, 9) == b"\0\0\x04\x08\0\0\0\0\x03\0\0\0\x09"
    assert reset_frame(3, 8) == b"\0\0\x04\x03\0\0\0\0\x03\0\0\0\x08"
    assert goaway_frame(7, 11, "x") == b"\0\0\x09\x07\0\0\0\0\0\0\0\0\x07\0\0\0\x0bx"


def test_a_header_block_is_cut_into_frames_of_the_peers_size():
    frames = list(frames_of(b"".join(header_frames(1, bytes(25), 10, end_stream=True))))
    assert [(kind, flags, len(payload)) for kind, flags, _, payload in frames] == [
        (HEADERS, END_STREAM, 10),
        (CONTINUATION, 0, 10),
        (CONTINUATION, END_HEADERS, 5),
    ]


def test_a_block_that_fits_is_one_frame():
    [(kind, flags, number, payload)] = frames_of(
        b"".join(header_frames(9, bytes(10), 10, end_stream=False))
    )
    assert (kind, flags, number, payload) == (HEADERS, END_HEADERS, 9, bytes(10))


def test_the_words_of_a_goaway_are_cut():
    [(_, _, _, payload)] = frames_of(goaway_frame(0, 1, "\xe9" * 100_000))
    assert payload[8:].decode() == "\xe9" * GOAWAY_WORDS_MAX
