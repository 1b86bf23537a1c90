"""Broken frames of HTTP/2 and gRPC against both ends of the hop, without sockets."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest

from tests.robustness.hop.client_side import ClientSide
from tests.robustness.hop.server_side import ServerSide

_FULL_RUN_S = 1_200
_GROWN_BYTES_MAX = 64 << 20
_COLLECT_EACH = 250
"""Connections. Parts of one refer to each other, so its buffer of 64 KiB waits for the collector,
which looks at numbers of objects and not at bytes."""
_WARM = 50
"""Connections after which all that is made once has been made."""


@pytest.mark.timeout(_FULL_RUN_S)
@pytest.mark.parametrize("make", [ServerSide, ClientSide])
async def test_broken_frames(
    make: type[ServerSide | ClientSide], seed: int, request: pytest.FixtureRequest
) -> None:
    """Half of `--fuzz-frames` for each side, over connections of some dozens."""
    frames = request.config.getoption("--fuzz-frames") // 2
    number = first = request.config.getoption("--fuzz-first")
    side, started, before = make(), time.monotonic(), 0
    try:
        while side.frames < frames:
            try:
                await side.run(f"{seed}-{make.__name__}-{number}")
            except BaseException as error:
                error.add_note(
                    f"repeat this connection alone: -k {make.__name__} --seed {seed} "
                    f"--fuzz-first {number} --fuzz-frames 2"
                )
                raise
            number += 1
            if not number % _COLLECT_EACH:
                gc.collect()
            if number == first + _WARM:
                before = _resident_bytes()
    finally:
        await side.close()
    seconds = time.monotonic() - started
    outcomes = ", ".join(f"{count} {name}" for name, count in sorted(side.outcomes.items()))
    print(f"{side.frames} frames in {seconds:.0f} s, {number - first} connections: {outcomes}")
    if before:
        assert _resident_bytes() - before < _GROWN_BYTES_MAX
        # All kinds of outcomes were met, or the frames were not what they should be.
        assert side.outcomes["served on"] > (number - first) // 5
        assert side.outcomes["goaway"] > (number - first) // 10


def _resident_bytes() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4_096
