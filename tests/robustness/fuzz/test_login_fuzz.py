"""Many frames that no client would send before its login, against a live broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.kafka.messages.api_versions import ApiVersionsRequest
from tests.robustness.fuzz.guarded import AUDIENCE, HOST, GoodLogins, Guarded, start_guarded
from tests.robustness.fuzz.login_attackers import attack_logins
from tests.robustness.fuzz.login_frames import bad_tokens
from tests.robustness.fuzz.watch import MemoryWatch
from tests.support.embedded_cluster import raise_open_files_limit

_FULL_RUN_S = 3 * 3600
_MEMORY_BYTES = 64 << 20
_SHARE_OF_TLS = 4
"""Each connection costs a handshake there, and behind that all is the same."""


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    raise_open_files_limit(16_384)
    made = start_guarded(tmp_path, login_failure_delay_s="0.01")
    yield made
    made.cluster.stop()


@pytest.mark.timeout(_FULL_RUN_S)
def test_frames_before_a_login(guarded: Guarded, seed: int, request: pytest.FixtureRequest) -> None:
    frames: int = request.config.getoption("--fuzz-frames")
    of_tls = frames // _SHARE_OF_TLS
    tokens = bad_tokens(guarded.issuer, AUDIENCE)
    with guarded.connect(secure=False) as connection:
        apis = connection.ask(ApiVersionsRequest(), 2).api_keys
    offered = {api.api_key: (api.min_version, api.max_version) for api in apis}
    started = time.monotonic()
    with GoodLogins(guarded), MemoryWatch(guarded.cluster, budget_bytes=_MEMORY_BYTES):
        tallies = [
            asyncio.run(
                attack_logins(
                    HOST,
                    port,
                    tokens,
                    offered,
                    frames=count,
                    seed=seed,
                    tls=guarded.tls if port == guarded.tls_port else None,
                )
            )
            for port, count in (
                (guarded.plain_port, frames - of_tls),
                (guarded.tls_port, of_tls),
            )
        ]
    seconds = time.monotonic() - started
    for tally in tallies:
        print(tally)
        assert tally.unexpected == []
        assert tally.refused == 0
    # All kinds of outcomes were met, or the frames were not what they should be.
    least = frames // 500
    assert sum(tally.answered for tally in tallies) > least
    assert sum(tally.challenged for tally in tallies) > least
    assert sum(tally.denied for tally in tallies) > least
    assert sum(tally.closed for tally in tallies) > least
    print(f"{frames / seconds:.0f} frames a second")
    assert sum(tally.frames for tally in tallies) >= frames
    assert guarded.cluster.process.running
    guarded.check_good_logins()
    guarded.check_log()
