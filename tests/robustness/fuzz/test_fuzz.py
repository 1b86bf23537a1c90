"""Many frames that no client would send, against a live broker."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable

import pytest

from highwater.kafka.messages.api_versions import ApiVersionsRequest
from tests.conformance.protocol.requests import topic_id
from tests.conformance.topics import make_topic
from tests.robustness.fuzz.attackers import attack
from tests.robustness.fuzz.generator import TOPICS
from tests.robustness.fuzz.watch import HonestClient, MemoryWatch
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection

_MODES = ("embedded", "nodes3", "kafka")
_FULL_RUN_S = 3 * 3600


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    modes = metafunc.config.getoption("--cluster").split(",")
    metafunc.parametrize(
        "mode",
        [
            pytest.param(mode, marks=pytest.mark.full if mode == "nodes3" else ())
            for mode in modes
            if mode in _MODES
        ],
    )


@pytest.mark.timeout(_FULL_RUN_S)
def test_mutated_frames(
    start_cluster: Callable[[str], Cluster],
    mode: str,
    seed: int,
    request: pytest.FixtureRequest,
) -> None:
    cluster = start_cluster(mode)
    frames: int = request.config.getoption("--fuzz-frames")
    for topic in TOPICS:
        make_topic(cluster.bootstrap, topic, partitions=2)
    host, _, port = cluster.bootstrap.rpartition(":")
    with RawConnection.to(cluster.bootstrap) as connection:
        apis = connection.ask(ApiVersionsRequest(), 2).api_keys
        ids = [topic_id(connection, topic) for topic in TOPICS]
    offered = {api.api_key: (api.min_version, api.max_version) for api in apis}
    started = time.monotonic()
    with HonestClient(cluster), MemoryWatch(cluster):
        tally = asyncio.run(
            attack(host, int(port), offered, frames=frames, seed=seed, topic_ids=ids)
        )
    seconds = time.monotonic() - started
    print(f"{tally}, in {seconds:.0f} s, {tally.frames / seconds:.0f} a second")
    assert tally.frames >= frames
    assert tally.refused == 0
    # All kinds of outcomes were met, or the frames were not what they should be.
    assert tally.answered > frames // 10
    assert tally.closed > frames // 20
    complaints = [line for line in cluster.complaints() if not _waited_for_disk(line)]
    assert complaints == [], "hostile input is no surprise to the broker"


def _waited_for_disk(line: str) -> bool:
    """True for a stall in a file system call: during the minutes of a million frames the disk of a
    virtual machine may hang for a second, which no frame causes.
    """
    if "event_loop_stalled" not in line:
        return False
    call = json.loads(line)["stack"].rstrip().rpartition("\n")[2]
    return "filesystem." in call
