"""The ways in which a request is broken before it is sent, each a function of its own."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import replace

from tests.robustness.fuzz.tokens import Kind, Token, joined, uvarint

Mutation = Callable[[list[Token], random.Random], bytes]
"""(tokens of a request, random source) -> the bytes that go on the wire, length included."""

_FRAME_LENGTH = struct.Struct(">i")
_HEADER_TOKENS = 5


def framed(content: bytes) -> bytes:
    """The content with its length in front."""
    return _FRAME_LENGTH.pack(len(content)) + content


def untouched(tokens: list[Token], chance: random.Random) -> bytes:
    return framed(joined(tokens))


def truncated(tokens: list[Token], chance: random.Random) -> bytes:
    content = joined(tokens)
    return framed(content[: chance.randrange(len(content))])


def bits_flipped(tokens: list[Token], chance: random.Random) -> bytes:
    content = bytearray(joined(tokens))
    for _ in range(chance.randint(1, 8)):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return framed(bytes(content))


def random_bytes(tokens: list[Token], chance: random.Random) -> bytes:
    return framed(chance.randbytes(chance.choice((0, 1, 8, 20, 200, 5_000))))


def random_body(tokens: list[Token], chance: random.Random) -> bytes:
    header = joined(tokens[:_HEADER_TOKENS])
    return framed(header + chance.randbytes(chance.randrange(300)))


def bytes_behind(tokens: list[Token], chance: random.Random) -> bytes:
    return framed(joined(tokens) + chance.randbytes(chance.randint(1, 50)))


def length_bomb(tokens: list[Token], chance: random.Random) -> bytes:
    """A count or a length far beyond what follows."""
    values = (2**31 - 1, 2**31 - 2, 2**30, 100_000_000, 1_000_000, 65_536)
    return _with_changed(tokens, chance, {Kind.COUNT, Kind.LENGTH}, chance.choice(values))


def negative_length(tokens: list[Token], chance: random.Random) -> bytes:
    values = (-1, -2, -(2**31), -(2**15))
    return _with_changed(tokens, chance, {Kind.COUNT, Kind.LENGTH}, chance.choice(values))


def wrong_count(tokens: list[Token], chance: random.Random) -> bytes:
    return _with_changed(tokens, chance, {Kind.COUNT}, chance.randint(0, 6))


def token_dropped(tokens: list[Token], chance: random.Random) -> bytes:
    dropped = chance.randrange(len(tokens))
    return framed(joined(tokens[:dropped] + tokens[dropped + 1 :]))


def token_doubled(tokens: list[Token], chance: random.Random) -> bytes:
    doubled = chance.randrange(len(tokens))
    return framed(joined(tokens[: doubled + 1] + tokens[doubled:]))


def unknown_key(tokens: list[Token], chance: random.Random) -> bytes:
    key = chance.choice((-1, 93, 200, 1_000, 2**15 - 1, -(2**15), 4, 5, 52))
    return framed(struct.pack(">h", key) + joined(tokens[1:]))


def unknown_version(tokens: list[Token], chance: random.Random) -> bytes:
    version = struct.pack(">h", chance.choice((-1, 20, 99, 2**15 - 1, -(2**15))))
    return framed(tokens[0].content + version + joined(tokens[2:]))


def bad_varint(tokens: list[Token], chance: random.Random) -> bytes:
    """A varint that never ends, or has more bytes than any number needs."""
    endless = chance.choice((b"\xff" * 12, b"\x80" * 9 + b"\x01", b"\x80" * 30))
    places = [index for index, token in enumerate(tokens) if token.compact]
    if not places:
        return framed(joined(tokens) + endless)
    place = chance.choice(places)
    return framed(joined(tokens[:place]) + endless + joined(tokens[place + 1 :]))


def lying_frame_length(tokens: list[Token], chance: random.Random) -> bytes:
    content = joined(tokens)
    length = chance.choice(
        (0, 1, 3, len(content) - 1, len(content) + 1, 100 * 1024 * 1024, 2**31 - 1, -1, -(2**31))
    )
    return _FRAME_LENGTH.pack(length) + content


def _with_changed(
    tokens: list[Token], chance: random.Random, kinds: set[Kind], value: int
) -> bytes:
    places = [index for index, token in enumerate(tokens) if token.kind in kinds]
    if not places:
        return framed(joined(tokens))
    place = chance.choice(places)
    old = tokens[place]
    if old.compact:
        content = uvarint(value + 1)
    else:
        size = len(old.content)
        content = (value & ((1 << (8 * size)) - 1)).to_bytes(size, "big")
    changed = [*tokens]
    changed[place] = replace(old, content=content)
    return framed(joined(changed))


MUTATIONS: tuple[tuple[Mutation, int], ...] = (
    (untouched, 30),
    (truncated, 8),
    (bits_flipped, 12),
    (random_bytes, 3),
    (random_body, 5),
    (bytes_behind, 5),
    (length_bomb, 10),
    (negative_length, 8),
    (wrong_count, 6),
    (token_dropped, 4),
    (token_doubled, 4),
    (unknown_key, 3),
    (unknown_version, 3),
    (bad_varint, 4),
    (lying_frame_length, 4),
)
"""Each mutation with its weight."""


def mutate(tokens: list[Token], chance: random.Random) -> bytes:
    """Breaks a request in one way, or in none."""
    mutation = chance.choices(
        [mutation for mutation, _ in MUTATIONS], weights=[weight for _, weight in MUTATIONS]
    )[0]
    return mutation(tokens, chance)
