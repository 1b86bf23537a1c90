"""The ways in which frames are broken, each a function of its own that knows their structure."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.robustness.hop.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HAS_PRIORITY,
    HEADERS,
    ID_MAX,
    PADDED,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    SETTINGS,
    Frame,
    goaway,
    integer,
    literal,
    message,
    reset,
    settings,
    window_update,
)
from tests.robustness.hop.traffic import HONEST, request_fields

Mutation = Callable[[list[Frame], random.Random], None]
"""Changes a connection's frames in place. Header blocks are encoded already."""

_HUGE = (0, 1, 16_383, 16_384, 2**24 - 1, 2**31 - 1, 2**31, 2**32 - 1)


def _place(frames: list[Frame], chance: random.Random, *kinds: int) -> int | None:
    """A frame of these kinds, or of any, that is not the honest stream's."""
    places = [
        index
        for index, frame in enumerate(frames)
        if (not kinds or frame.kind in kinds) and frame.stream != HONEST
    ]
    return chance.choice(places) if places else None


def _anywhere(frames: list[Frame], chance: random.Random, *more: Frame) -> None:
    """Puts frames somewhere, but not into a header block that was cut."""
    place = chance.randint(0, len(frames))
    frames[place:place] = more


def _some_stream(frames: list[Frame], chance: random.Random) -> int:
    known = [frame.stream for frame in frames if frame.stream != HONEST] or [3]
    return chance.choice((*known, chance.choice((0, 2, 5, 7, 9, 99, ID_MAX, ID_MAX - 1))))


def changed_kind(frames: list[Frame], chance: random.Random) -> None:
    if (at := _place(frames, chance)) is not None:
        frames[at] = frames[at].with_(kind=chance.randrange(12))


def changed_flags(frames: list[Frame], chance: random.Random) -> None:
    if (at := _place(frames, chance)) is not None:
        frames[at] = frames[at].with_(flags=frames[at].flags ^ 1 << chance.randrange(8))


def changed_stream(frames: list[Frame], chance: random.Random) -> None:
    if (at := _place(frames, chance)) is not None:
        high = chance.choice((0, 0, 0, 1 << 31))
        frames[at] = frames[at].with_(stream=_some_stream(frames, chance) | high)


def lying_length(frames: list[Frame], chance: random.Random) -> None:
    if (at := _place(frames, chance)) is not None:
        true = len(frames[at].payload)
        lies = (0, max(true - 1, 0), true + 1, true + 9, 16_385, 40_000, 1 << 20, 2**24 - 1)
        frames[at] = frames[at].with_(length=chance.choice(lies))


def changed_payload(frames: list[Frame], chance: random.Random) -> None:
    """Shorter, longer, empty, or with other bits, under a true length."""
    if (at := _place(frames, chance)) is not None:
        payload = bytearray(frames[at].payload)
        for _ in range(chance.randint(1, 4)):
            if payload:
                payload[chance.randrange(len(payload))] ^= 1 << chance.randrange(8)
        made = bytes(payload)
        ways = (made, made[: len(made) // 2], made[:-1], made + chance.randbytes(5), b"")
        frames[at] = frames[at].with_(payload=chance.choice(ways))


def padded(frames: list[Frame], chance: random.Random) -> None:
    if (at := _place(frames, chance, DATA, HEADERS)) is not None:
        frame, size = frames[at], chance.choice((0, 1, 30, 255))
        claimed = chance.choice((size, size, min(size + 1, 255), 255))
        payload = bytes([claimed]) + frame.payload + bytes(size)
        frames[at] = frame.with_(flags=frame.flags | PADDED, payload=payload)


def with_dependency(frames: list[Frame], chance: random.Random) -> None:
    if (at := _place(frames, chance, HEADERS)) is not None:
        frame = frames[at]
        on = chance.choice((0, 3, frame.stream, frame.stream | 1 << 31))
        payload = on.to_bytes(4, "big") + b"\x07" + frame.payload
        frames[at] = frame.with_(flags=frame.flags | HAS_PRIORITY, payload=payload)


def doubled(frames: list[Frame], chance: random.Random) -> None:
    if (at := _place(frames, chance)) is not None:
        _anywhere(frames, chance, frames[at])


def dropped(frames: list[Frame], chance: random.Random) -> None:
    if (at := _place(frames, chance)) is not None:
        del frames[at]


def moved(frames: list[Frame], chance: random.Random) -> None:
    """Also behind the end of its stream, or before its beginning."""
    if (at := _place(frames, chance)) is not None:
        _anywhere(frames, chance, frames.pop(at))


def cut_block(frames: list[Frame], chance: random.Random) -> None:
    """HEADERS and CONTINUATION, as it should be or with something between or missing."""
    if (at := _place(frames, chance, HEADERS)) is None:
        return
    frame = frames[at]
    cuts = sorted(chance.randint(0, len(frame.payload)) for _ in range(chance.randint(1, 4)))
    pieces = [frame.payload[a:b] for a, b in zip([0, *cuts], [*cuts, None], strict=True)]
    made = [frame.with_(flags=frame.flags & ~END_HEADERS, payload=pieces[0])]
    made += [Frame(CONTINUATION, 0, frame.stream, piece) for piece in pieces[1:]]
    if chance.random() < 0.85:
        made[-1] = made[-1].with_(flags=END_HEADERS)
    if chance.random() < 0.25:
        between = chance.choice((Frame(PING, 0, 0, bytes(8)), Frame(DATA, 0, HONEST, b"x")))
        made.insert(chance.randint(1, len(made)), between)
    frames[at : at + 1] = made


def wrong_message(frames: list[Frame], chance: random.Random) -> None:
    """gRPC's prefix: compressed, too long, too short, cut off."""
    if (at := _place(frames, chance, DATA)) is None:
        return
    body = chance.choice((b"", b"x", b"y" * 300))
    payload = chance.choice(
        (
            message(body, compressed=chance.choice((1, 2, 255))),
            message(body, length=chance.choice((len(body) + 1, 60_000, 99_000, 2**31, 2**32 - 1))),
            message(body, length=max(len(body) - 1, 0)),
            message(body)[: chance.randrange(5)],
            message(b"") * chance.choice((1, 50, 3_000, 20_000)),
        )
    )
    frames[at] = frames[at].with_(payload=payload)


def garbage_block(frames: list[Frame], chance: random.Random) -> None:
    """HPACK: every kind of error, and blocks that grow."""
    if (at := _place(frames, chance, HEADERS, CONTINUATION)) is None:
        return
    good = frames[at].payload
    index = chance.choice((0, 62, 70, 127, 5_000, 2**32))
    block = chance.choice(
        (
            chance.randbytes(chance.choice((1, 10, 200))),
            integer(index, 7, 0x80) + good,
            good + integer(index, 7, 0x80),
            integer(chance.choice((0, 100, 4_096, 4_097, 2**40)), 5, 0x20) + good,
            b"\x20" * chance.choice((2, 3, 1_000, 16_000)) + good,
            good + b"\x7f" + b"\xff" * chance.choice((3, 12, 16_000)),
            good + b"\x00\x85" + b"\xff" * 5 + b"\x00",
            b"\x40\x01a" + integer(4_000, 7) + bytes(4_000) + b"\xbe" * chance.choice((2, 9)),
            good + literal([(b"x", b"y" * chance.choice((100, 9_000, 17_000)))]),
            good[: len(good) // 2],
        )
    )
    frames[at] = frames[at].with_(payload=block)


def odd_fields(frames: list[Frame], chance: random.Random) -> None:
    """Well-formed blocks with fields that are not allowed, or mean something else."""
    if (at := _place(frames, chance, HEADERS)) is None:
        return
    good = request_fields(chance.choice(("/demo.Demo/Echo", "", "*", "/" + "\xe9" * 5_000)))
    more = chance.choice(
        (
            (b"Upper", b"x"),
            (b":path", b"/again"),
            (b":status", b"200"),
            (b"connection", b"close"),
            (b"te", b"gzip"),
            (b"content-length", chance.choice((b"0", b"3", b"-1", b"9" * 30, b"x"))),
            (b"x-bin", chance.choice((b"*", b"\xe9", b"A", b"====", b","))),
            (b"grpc-timeout", chance.choice((b"", b"1", b"-1S", b"123456789S", b"0n", b"1d"))),
            (b"grpc-encoding", chance.choice((b"gzip", b"identity", b""))),
            (b"content-type", b"text/plain"),
            (b"grpc-status", chance.choice((b"0", b"16", b"99999999999", b"\xb2"))),
            (b"", b""),
            (b"a b", b"c\r\nd"),
        )
    )
    fields = [*good, more]
    if chance.random() < 0.3:
        chance.shuffle(fields)
    frames[at] = frames[at].with_(payload=literal(fields))


def odd_settings(frames: list[Frame], chance: random.Random) -> None:
    pairs = [
        (chance.choice((0, 1, 2, 3, 4, 4, 5, 6, 9)), chance.choice((*_HUGE, 100, 65_535)))
        for _ in range(chance.choice((1, 2, 6, 300)))
    ]
    if chance.random() < 0.6:
        # Only what is allowed, and over and over.
        pairs = [(name, min(value, 4_096)) for name, value in pairs if name in {1, 3, 4, 6}]
    count = chance.choice((1, 1, 2, 20))
    several = [settings(*chance.sample(pairs, len(pairs))) for _ in range(count)]
    _anywhere(frames, chance, *several)


def table_sizes(frames: list[Frame], chance: random.Random) -> None:
    """The size of the HPACK table goes up and down."""
    sizes = [chance.choice((0, 50, 4_096, 2**32 - 1)) for _ in range(chance.randint(2, 9))]
    _anywhere(frames, chance, *(settings((1, size)) for size in sizes))


def window_overflow(frames: list[Frame], chance: random.Random) -> None:
    number = chance.choice((0, _some_stream(frames, chance)))
    increments = [chance.choice((*_HUGE, 5_000)) for _ in range(chance.randint(1, 3))]
    _anywhere(frames, chance, *(window_update(number, one) for one in increments))


def burst(frames: list[Frame], chance: random.Random) -> None:
    """Many frames that carry nothing."""
    number = _some_stream(frames, chance)
    one = chance.choice(
        (
            Frame(PING, 0, 0, bytes(8)),
            Frame(SETTINGS),
            Frame(SETTINGS, ACK),
            Frame(DATA, 0, number),
            Frame(DATA, END_STREAM, number),
            Frame(CONTINUATION, 0, number),
            Frame(PRIORITY, 0, number, bytes(5)),
            Frame(77),
            window_update(0, 1),
            reset(number, 8),
        )
    )
    _anywhere(frames, chance, *([one] * chance.choice((3, 30, 150))))


def odd_priority(frames: list[Frame], chance: random.Random) -> None:
    """PRIORITY of the wrong length or of a stream that depends on itself, often of an idle one."""
    number = chance.choice((_some_stream(frames, chance), 21, 99, ID_MAX))
    payload = chance.choice((b"", bytes(4), bytes(6), (number or 1).to_bytes(4, "big") + b"\0"))
    _anywhere(frames, chance, Frame(PRIORITY, 0, number, payload))


def inserted(frames: list[Frame], chance: random.Random) -> None:
    """A frame that fits nowhere, or that is fine."""
    number = _some_stream(frames, chance)
    one = chance.choice(
        (
            Frame(PUSH_PROMISE, END_HEADERS, number, b"\0\0\0\x02" + literal([(b"a", b"b")])),
            Frame(PING, chance.choice((0, ACK)), chance.choice((0, number)), b"draining"),
            Frame(chance.randrange(256), 0xFF, number, bytes(chance.choice((0, 20_000, 50_000)))),
            goaway(chance.choice((0, number)), chance.choice((0, 2, 2**32 - 1)), b"\xff" * 300),
            reset(number, chance.choice(_HUGE)),
        )
    )
    _anywhere(frames, chance, one)


MUTATIONS: tuple[Mutation, ...] = (
    changed_kind,
    changed_flags,
    changed_stream,
    lying_length,
    changed_payload,
    padded,
    with_dependency,
    doubled,
    dropped,
    moved,
    cut_block,
    wrong_message,
    garbage_block,
    odd_fields,
    odd_settings,
    table_sizes,
    window_overflow,
    burst,
    odd_priority,
    inserted,
)


def mutate(frames: list[Frame], chance: random.Random) -> list[str]:
    """Breaks the frames in none to four ways, whose names it returns."""
    chosen = chance.choices(MUTATIONS, k=chance.choice((0, 1, 1, 1, 2, 2, 3, 4)))
    for mutation in chosen:
        mutation(frames, chance)
    return [mutation.__name__ for mutation in chosen]


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Bytes that are changed, missing or doubled without regard to frames; rarely."""
    if chance.random() > 0.08 or not data:
        return data
    made = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(made) or 1)
        way = chance.randrange(3)
        if way == 0 and made:
            made[at] ^= 1 << chance.randrange(8)
        elif way == 1:
            del made[at : at + chance.randint(1, 20)]
        else:
            made[at:at] = made[at : at + chance.randint(1, 20)]
    return bytes(made)
