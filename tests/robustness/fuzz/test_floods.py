"""Slow, idle, greedy and silent clients, beside an honest one.

Not on Kafka: it has no budget for requests unless told, and a gigabyte of heap is soon gone.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import pytest

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.framing import encode_request_header
from highwater.kafka.messages.api_versions import ApiVersionsRequest
from tests.conformance.protocol.requests import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    batch,
    fetch_request,
    produce,
    produce_request,
)
from tests.conformance.topics import make_topic
from tests.robustness.fuzz.floods import (
    begin_frames,
    connections,
    send_greedily,
    send_slowly,
    send_without_reading,
)
from tests.robustness.fuzz.record_sets import bomb
from tests.robustness.fuzz.watch import HonestClient, MemoryWatch
from tests.support.cluster import Cluster
from tests.support.nodes_cluster import NodesCluster
from tests.support.wire import ConnectionEnded, RawConnection, request_frame

_MODES = ("embedded", "nodes3")
_IDLE_CONNECTIONS = 5_000
_CLIENT = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
_GIB = 1 << 30

pytestmark = pytest.mark.timeout(240)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mode" not in metafunc.fixturenames:
        return
    modes = metafunc.config.getoption("--cluster").split(",")
    metafunc.parametrize(
        "mode",
        [
            pytest.param(mode, marks=pytest.mark.full if mode == "nodes3" else ())
            for mode in modes
            if mode in _MODES
        ],
    )


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    """How long a flood lasts."""
    chosen: float = request.config.getoption("--flood-seconds")
    return chosen


def _address(cluster: Cluster) -> tuple[str, int]:
    host, _, port = cluster.bootstrap.rpartition(":")
    return host, int(port)


def test_slow_senders(start_cluster: Callable[[str], Cluster], mode: str, seconds: float) -> None:
    cluster = start_cluster(mode)
    topic = make_topic(cluster.bootstrap, "slow")
    request = request_frame(produce_request(topic, {0: batch([b"slow"])}), PRODUCE_VERSION, 1)
    with (
        HonestClient(cluster),
        MemoryWatch(cluster),
        connections(*_address(cluster), 200) as opened,
    ):
        closed = send_slowly(opened, request, seconds=seconds)
        assert closed == 0, "slow clients are allowed"
        for one in opened:
            one.settimeout(20)
            (length,) = struct.unpack(">i", one.recv(4))
            assert length > 0
    assert cluster.complaints() == []


def test_five_thousand_idle_connections(
    start_cluster: Callable[[str], Cluster], mode: str, seconds: float
) -> None:
    cluster = start_cluster(mode)
    with (
        MemoryWatch(cluster),
        connections(*_address(cluster), _IDLE_CONNECTIONS) as opened,
        HonestClient(cluster),
    ):
        time.sleep(seconds / 2)
        # They were idle, not dead: each one of a sample is still served.
        probe = request_frame(_CLIENT, 3, 5)
        for one in opened[:: _IDLE_CONNECTIONS // 50]:
            one.sendall(probe)
            one.settimeout(20)
            (length,) = struct.unpack(">i", one.recv(4))
            assert length > 0
    with RawConnection.to(cluster.bootstrap) as after:
        assert after.ask(_CLIENT, 3).error_code == ErrorCode.NONE
    assert cluster.complaints() == []


def test_five_thousand_begun_frames(
    start_cluster: Callable[[str], Cluster], mode: str, seconds: float
) -> None:
    """Small frames without their last byte, 300 MiB of them in all."""
    cluster = start_cluster(mode)
    with (
        HonestClient(cluster),
        MemoryWatch(cluster),
        connections(*_address(cluster), _IDLE_CONNECTIONS) as opened,
    ):
        begin_frames(opened, frame_bytes=60 << 10)
        time.sleep(seconds / 2)
    assert cluster.complaints() == []


def test_announced_frames_take_no_memory_beyond_the_budget(
    start_cluster: Callable[[str], Cluster], mode: str, seconds: float
) -> None:
    cluster = start_cluster(mode)
    with (
        HonestClient(cluster),
        MemoryWatch(cluster),
        connections(*_address(cluster), 300) as opened,
    ):
        taken = send_greedily(opened, frame_bytes=90 << 20, seconds=seconds)
        print(f"{taken >> 20} MiB were taken of {300 * 90} MiB")
    assert cluster.complaints() == []


def test_large_frames_that_never_end(
    start_cluster: Callable[[str], Cluster], mode: str, seconds: float
) -> None:
    """As above, but the frames begin as Produce requests, which a gateway may parse early."""
    cluster = start_cluster(mode)
    header = encode_request_header(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "greedy")
    with (
        HonestClient(cluster),
        MemoryWatch(cluster),
        connections(*_address(cluster), 60) as opened,
    ):
        for one in opened:
            one.sendall(struct.pack(">i", 60 << 20) + header)
        chunk = bytes(1 << 16)
        deadline = time.monotonic() + seconds
        for one in opened:
            one.setblocking(False)
        while time.monotonic() < deadline:
            for one in opened:
                try:
                    one.send(chunk)
                except (BlockingIOError, ConnectionError):
                    continue
            time.sleep(0.001)
    assert cluster.complaints() == []


def _fetches(cluster: Cluster, name: str, *, batches: int, nbytes: int) -> bytes:
    """A Fetch from the start of a new topic with `batches` batches of `nbytes` bytes."""
    topic = make_topic(cluster.bootstrap, name)
    with RawConnection.to(cluster.bootstrap) as writer:
        for _ in range(batches):
            part = produce(writer, topic, batch([b"x" * nbytes]))
            assert part.error_code == ErrorCode.NONE
    most = batches * (nbytes + 1000)
    return request_frame(fetch_request(topic, {0: 0}, partition_max_bytes=most), FETCH_VERSION, 1)


def test_clients_that_do_not_read(
    start_cluster: Callable[[str], Cluster], mode: str, seconds: float
) -> None:
    """Large replies are ranges of files; small ones are bytes, 160 KB of them for each KB sent."""
    cluster = start_cluster(mode)
    large = _fetches(cluster, "unread", batches=8, nbytes=900_000)
    small = _fetches(cluster, "unread-too", batches=1, nbytes=30_000)
    with (
        HonestClient(cluster),
        MemoryWatch(cluster),
        connections(*_address(cluster), 50) as opened,
        connections(*_address(cluster), 100) as others,
    ):
        sent = send_without_reading(opened, large, count=5_000, seconds=seconds)
        also = send_without_reading(others, small, count=5_000, seconds=seconds)
        print(f"{sent} fetches of 7 MiB and {also} of 30 KB sent, none read")
        time.sleep(seconds)  # The sockets took the requests at once; now the broker works on them.
    assert cluster.complaints() == []


@pytest.mark.full
@pytest.mark.parametrize("hop", ["nodes3", "grpcio3"])
def test_clients_that_do_not_read_bytes_of_the_hop(
    start_cluster: Callable[[str], Cluster], hop: str, seconds: float
) -> None:
    """Where a gateway cannot read the nodes' files, every reply passes through its memory."""
    cluster = start_cluster(hop)
    assert isinstance(cluster, NodesCluster)
    cluster.hide_files_from_gateways()
    large = _fetches(cluster, "unread", batches=8, nbytes=900_000)
    with (
        HonestClient(cluster),
        MemoryWatch(cluster),
        connections(*_address(cluster), 50) as opened,
    ):
        sent = send_without_reading(opened, large, count=5_000, seconds=seconds)
        print(f"{sent} fetches of 7 MiB sent, none read")
        time.sleep(1.5 * seconds)  # Some are closed now, which lets the others' answers come.
    assert [line for line in cluster.complaints() if "gateway" not in line] == []


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
@pytest.mark.parametrize("policy", [pytest.param("delete", marks=pytest.mark.full), "compact"])
def test_decompression_bombs(
    start_cluster: Callable[[str], Cluster], mode: str, codec: str, policy: str
) -> None:
    """A compacted topic needs the keys, so there the broker has to look into the batch."""
    cluster = start_cluster(mode)
    topic = make_topic(
        cluster.bootstrap,
        "bombed",
        configs={"cleanup.policy": policy, "max.message.bytes": str(8 << 20)},
    )
    records = bomb(codec, _GIB)
    with HonestClient(cluster), MemoryWatch(cluster):
        for _ in range(3):
            with RawConnection.to(cluster.bootstrap) as attacker:
                try:
                    part = produce(attacker, topic, records)
                except (ConnectionEnded, TimeoutError):
                    continue  # Closing is an answer too.
                if policy == "compact":
                    assert part.error_code != ErrorCode.NONE
    assert cluster.complaints() == []
