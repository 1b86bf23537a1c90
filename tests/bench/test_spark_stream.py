"""The largest rate: every broker climbs the same steps, and a later pair begins below what was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.bench.peer import Peer
from tests.bench.peers import make_peer
from tests.bench.spark_stream import Streams, StreamScale

LARGEST = {"external:a:1": 1562, "external:b:1": 1250}


def test_later_pairs_begin_a_step_below_what_was_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, int]] = []

    def is_steady_at(_: Streams, peer: Peer, rate: int) -> bool:
        asked.append((peer.name[9], rate))
        return rate <= LARGEST[peer.name]

    monkeypatch.setattr(Streams, "is_steady_at", is_steady_at)
    session: Any = None
    streams = Streams(session, tmp_path, StreamScale(first_rate=1000), lambda _: None)
    peers = [make_peer(name) for name in LARGEST]
    found = streams.largest_rate(peers, row="r", pairs=2)
    assert found.beside is not None
    assert (found.ours.values, found.beside.values) == ((1562.0, 1562.0), (1250.0, 1250.0))
    assert found.ratio == pytest.approx(1.25, abs=0.001)
    assert asked == [
        ("a", 1000),  # Not judged: Java compiles.
        *(("a", rate) for rate in (1000, 1250, 1562, 1953)),
        *(("b", rate) for rate in (1000, 1250, 1562)),
        *(("b", rate) for rate in (1000, 1250, 1562)),
        *(("a", rate) for rate in (1250, 1562, 1953)),
    ]
