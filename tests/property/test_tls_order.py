"""Random histories of a connection with TLS: each byte comes once and in order, every file is released.

For any answers, in memory and in files, small and large, and any turns of threads, of the socket and
of the client: what a real client decrypts is what was sent. Keys are changed in between, and at some
moment the connection may be lost.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.gateway.sockets.tls_outbox import SCARCE_BYTES, THREAD_BYTES_MAX, THREAD_BYTES_MIN
from highwater.gateway.sockets.tls_piece import PIECE_BYTES
from tests.support.certificates import make_certificate, tls_contexts
from tests.unit.gateway.sockets.tls_world import OutboxWorld
from tests.unit.gateway.wires import Range, Segment

SIZES = st.sampled_from(
    [
        1,
        17,
        1000,
        SCARCE_BYTES,
        THREAD_BYTES_MIN - 1,
        THREAD_BYTES_MIN,
        PIECE_BYTES,
        PIECE_BYTES + 1,
        THREAD_BYTES_MAX - 1,
        THREAD_BYTES_MAX + 1,
        2 * THREAD_BYTES_MAX,
    ]
)
PARTS = st.lists(st.tuples(st.booleans(), SIZES), min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), PARTS),
        st.tuples(st.just("read"), st.sampled_from([1, 5000, 100_000, 1 << 20])),
        st.tuples(st.sampled_from(["work", "writable", "update", "request", "scarce"]), st.none()),
    ),
    max_size=30,
)


@pytest.fixture(scope="module")
def segment() -> Iterator[Segment]:
    with (
        tempfile.TemporaryDirectory() as directory,
        Segment(Path(directory) / "log", 4 << 20) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tls_contexts(make_certificate(tmp_path_factory.mktemp("tls")))


@given(steps=STEPS, lost=st.booleans())
def test_each_byte_once_and_in_order(
    contexts: Any, segment: Segment, steps: list[tuple[str, Any]], lost: bool
) -> None:
    world = OutboxWorld(contexts)
    ranges: list[Range] = []
    expected = b""
    try:
        for step, value in steps:
            if step == "send":
                parts: list[bytes | Range] = []
                for in_file, size in value:
                    start = len(expected) % 4096
                    data = segment.data[start : start + size]
                    expected += data
                    if in_file:
                        ranges.append(segment.range(start, size))
                        parts.append(ranges[-1])
                    else:
                        parts.append(data)
                world.outbox.send(parts)
            else:
                take(world, step, value)
            assert len(world.threads.waiting) <= 1
            assert expected.startswith(world.got)
        if lost:
            world.outbox.close()
        world.settle()
        assert world.errors == []
        assert expected == world.got or lost
        assert world.outbox.idle
    finally:
        world.close()
    assert [each.released for each in ranges] == [1] * len(ranges)
    assert not world.held or world.held[-1] == (0, False)


def take(world: OutboxWorld, step: str, value: Any) -> None:
    if step == "read":
        world.read(value)
    elif step == "work" and world.threads.waiting:
        world.threads.work()
    elif step == "writable":
        world.loop.writable()
    elif step == "update":
        world.receive(world.peer.update_keys())
    elif step == "request":
        world.receive(world.peer.send(b"x" * 100))
    elif step == "scarce":
        world.memory.replies_scarce = not world.memory.replies_scarce
