"""Ordinary traffic of one connection as frames, a client's or a server's, interleaved by chance."""

from __future__ import annotations

import random

from tests.robustness.hop.frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PRIORITY,
    SETTINGS,
    Frame,
    Pairs,
    goaway,
    message,
    reset,
    settings,
    window_update,
)

HONEST = 1
"""The stream that nothing is done to: its call must be answered whatever happens beside it."""
METHODS = ("Echo", "Fails", "Silent", "Slow", "Meta", "Reverse", "Refuse", "Sleep", "Nowhere")
_SIZES = (0, 1, 5, 40, 300, 3_000, 17_000, 40_000)
_SIZE_WEIGHTS = (3, 3, 5, 8, 6, 3, 1, 1)


def request_fields(path: str, more: Pairs | None = None) -> Pairs:
    return [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path.encode("latin-1")),
        (b":authority", b"fuzz"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        *(more or []),
    ]


RESPONSE: Pairs = [(b":status", b"200"), (b"content-type", b"application/grpc")]
TRAILERS: Pairs = [(b"grpc-status", b"0")]


def content(chance: random.Random) -> bytes:
    size = chance.choices(_SIZES, _SIZE_WEIGHTS)[0]
    return bytes([chance.randrange(256)]) * size


def merged(rows: list[list[Frame]], chance: random.Random) -> list[Frame]:
    """All frames, each row's in its order."""
    order = [index for index, row in enumerate(rows) for _ in row]
    chance.shuffle(order)
    iterators = [iter(row) for row in rows]
    return [next(iterators[index]) for index in order]


def _data(number: int, contents: list[bytes], chance: random.Random, *, end: bool) -> list[Frame]:
    """Messages as DATA: each in a frame of its own, several in one, or cut anywhere."""
    payload = b"".join(message(one) for one in contents)
    frames, pos = [], 0
    while pos < len(payload):
        size = chance.choice((len(payload), 16_384, chance.randint(1, 3_000)))
        frames.append(Frame(DATA, 0, number, payload[pos : pos + min(size, 16_384)]))
        pos += min(size, 16_384)
    if end:
        if frames and chance.random() < 0.7:
            frames[-1] = frames[-1].with_(flags=END_STREAM)
        else:
            frames.append(Frame(DATA, END_STREAM, number))
    return frames


class ClientTraffic:
    """What a client of the demo service sends."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def frames(self) -> list[Frame]:
        """Without the preface, SETTINGS and the honest call's HEADERS, which come before."""
        chance = self._chance
        rows = [
            _with_control(self._call(3 + 2 * index), chance)
            for index in range(chance.randint(1, 7))
        ]
        heads = [row.pop(0) for row in rows]
        made: list[Frame] = []
        for frame in merged([*rows, control_frames(chance)], chance):
            # Streams begin in the order of their numbers, and before anything else of them.
            while heads and (heads[0].stream <= frame.stream or chance.random() < 0.2):
                made.append(heads.pop(0))
            made.append(frame)
        return [*made, *heads]

    def _call(self, number: int) -> list[Frame]:
        chance = self._chance
        if chance.random() < 0.05:
            return [Frame(HEADERS, END_HEADERS | END_STREAM, number, fields=self._get())]
        path = f"/demo.Demo/{chance.choice(METHODS)}"
        more: Pairs = []
        if chance.random() < 0.3:
            more.append((b"grpc-timeout", chance.choice((b"1H", b"50m", b"1n", b"99999999H"))))
        if chance.random() < 0.3:
            more.append((b"key-%d" % chance.randrange(5), b"v" * chance.randrange(60)))
        if chance.random() < 0.2:
            more.append((b"raw-bin", chance.choice((b"AAEC", b"AAE", b"AA==,AQ", b""))))
        contents = [content(chance) for _ in range(chance.choice((0, 1, 1, 2, 4)))]
        head = Frame(HEADERS, END_HEADERS, number, fields=request_fields(path, more))
        return [head, *_data(number, contents, chance, end=chance.random() < 0.8)]

    def _get(self) -> Pairs:
        return [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b"a", b"b")]


class ServerTraffic:
    """What a server answers to calls on the given streams, more or less well."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def frames(self, streams: list[int]) -> list[Frame]:
        chance = self._chance
        rows = [_with_control(self._answer(number), chance) for number in streams]
        return merged([*rows, control_frames(chance, goaway_of=streams[-1])], chance)

    def _answer(self, number: int) -> list[Frame]:
        chance = self._chance
        roll = chance.random()
        end = END_HEADERS | END_STREAM
        if roll < 0.1:
            return [Frame(HEADERS, end, number, fields=[*RESPONSE, *self._trailers()])]
        if roll < 0.15:
            status = chance.choice((b"404", b"503", b"204", b"999"))
            return [Frame(HEADERS, end, number, fields=[(b":status", status), (b"a", b"b")])]
        if roll < 0.22:
            return [reset(number, chance.choice((0, 2, 7, 8, 11, 99)))]
        made = [Frame(HEADERS, END_HEADERS, number, fields=[*RESPONSE, (b"x-a", b"yes")])]
        if roll < 0.3:
            interim = chance.choice((b"100", b"103"))
            made.insert(0, Frame(HEADERS, END_HEADERS, number, fields=[(b":status", interim)]))
        contents = [content(chance) for _ in range(chance.choice((0, 1, 1, 1, 3)))]
        made += _data(number, contents, chance, end=False)
        if roll < 0.9:
            made.append(Frame(HEADERS, end, number, fields=self._trailers()))
        return made

    def _trailers(self) -> Pairs:
        chance = self._chance
        status = chance.choice((b"0", b"0", b"0", b"5", b"16", b"17", b"", b"x"))
        more: Pairs = [(b"grpc-message", chance.choice((b"no%20way", b"%", b"%ff%zz")))]
        return [(b"grpc-status", status), *(more if chance.random() < 0.4 else [])]


def control_frames(chance: random.Random, *, goaway_of: int | None = None) -> list[Frame]:
    """Frames of any peer that has nothing against us; `goaway_of` a server's last stream."""
    makers = (
        lambda: Frame(PING, 0, 0, chance.randbytes(8)),
        lambda: Frame(PING, ACK, 0, b"keepaliv"),
        lambda: Frame(SETTINGS, ACK),
        lambda: settings((chance.choice((1, 3, 4, 5, 6, 77)), chance.choice((16_384, 70_000)))),
        lambda: window_update(0, chance.choice((1, 5_000, 60_000))),
        lambda: Frame(chance.choice((10, 12, 200)), 0xFF, 5, bytes(chance.randrange(90))),
    )
    made = [chance.choice(makers)() for _ in range(chance.randrange(6))]
    if goaway_of is not None and chance.random() < 0.1:
        made.append(goaway(chance.choice((0, 1, goaway_of, 2**31 - 1)), 0, b"bye"))
    return made


def _with_control(row: list[Frame], chance: random.Random) -> list[Frame]:
    """A stream's frames, and others of it that may come at any time after the first one."""
    number = row[0].stream
    makers = (
        lambda: window_update(number, chance.choice((1, 5_000, 60_000))),
        lambda: Frame(PRIORITY, 0, number, b"\0\0\0\0\x10"),
    )
    for _ in range(chance.choice((0, 0, 0, 1, 2))):
        row.insert(chance.randint(1, len(row)), chance.choice(makers)())
    if chance.random() < 0.08:
        row[chance.randint(1, len(row)) :] = [reset(number, chance.choice((0, 5, 8, 99)))]
    return row
