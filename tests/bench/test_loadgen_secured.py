"""The load generator by TLS and with a login, against our own broker and against Apache Kafka."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.bench import load
from tests.bench.credentials import made_credentials
from tests.bench.fake_broker import FakeBroker
from tests.bench.peer import Listeners, Peer
from tests.bench.peers import make_peer
from tests.bench.workloads import Metric, Security, Transactions, Workload
from tests.conformance.topics import unique_name
from tests.support.certificates import make_certificate, tls_contexts

RUN_TIMEOUT_S = 60
PATIENCE_S = 30.0
# More than one record of TLS holds, which is 16 384.
BATCH_BYTES = 20_000
SECURITIES = (Security.TLS, Security.LOGIN)
TOO_LARGE = 10
AUTHENTICATION_FAILED = 58


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    load.build()


@contextlib.contextmanager
def secured(name: str) -> Iterator[Peer]:
    with made_credentials() as credentials:
        peer = make_peer(name)
        peer.listeners = Listeners(securities=SECURITIES, credentials=credentials)
        peer.start()
        try:
            yield peer
        finally:
            peer.stop()


@pytest.fixture(scope="module")
def ours() -> Iterator[Peer]:
    with secured("embedded") as peer:
        yield peer


def topic_of(peer: Peer, partitions: int, **configs: str) -> str:
    name = unique_name("secured")
    peer.create_topic(name, partitions, {key.replace("_", "."): v for key, v in configs.items()})
    return name


def generate(target: load.Target, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(load.EXECUTABLE), *target.arguments, "--seconds", "30", "--warmup-seconds", "0"]
    return subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
    )


def values(peer: Peer, topic: str, count: int) -> list[bytes]:
    """Read without TLS, with their checksums."""
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }
    )
    consumer.subscribe([topic])
    found: list[bytes] = []
    try:
        while len(found) < count:
            messages = consumer.consume(count - len(found), PATIENCE_S)
            assert messages
            for message in messages:
                assert message.error() is None
                value = message.value()
                assert value is not None
                found.append(value)
    finally:
        consumer.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("security", SECURITIES)
@pytest.mark.parametrize(("batch_bytes", "requests"), [(20_000, 300), (1_000_000, 60)])
def test_what_is_written_is_what_plain_writes(
    ours: Peer, security: Security, batch_bytes: int, requests: int
) -> None:
    """Of large ones a socket does not take all at once."""
    wanted, topic = topic_of(ours, 3), topic_of(ours, 3)
    load.send(
        ours.target(wanted), partitions=3, batch_bytes=batch_bytes, requests=3, wait_s=PATIENCE_S
    )
    result = load.send(
        ours.target(topic, security),
        partitions=3, batch_bytes=batch_bytes, requests=requests, connections=2, wait_s=PATIENCE_S,
    )  # fmt: skip
    assert result.requests == requests
    assert set(values(ours, topic, requests)) == set(values(ours, wanted, 3))


@pytest.mark.slow
@pytest.mark.parametrize("security", SECURITIES)
@pytest.mark.parametrize("max_bytes", [10_000, 1_000_000])
def test_a_reader_sees_every_record_once_per_round(
    ours: Peer, security: Security, max_bytes: int
) -> None:
    topic, batches = topic_of(ours, 1), 2000
    load.send(
        ours.target(topic), partitions=1, batch_bytes=1000, requests=batches, wait_s=PATIENCE_S
    )
    requests = batches * 1000 // max_bytes * 3
    done = generate(
        ours.target(topic, security), "--mode", "fetch", "--connections", "1", "--discard",
        "--max-bytes", str(max_bytes), "--requests", str(requests),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["requests"], found["records"], found["empty"]) == (requests, 3 * batches, 0)


@pytest.mark.parametrize(
    ("batch_bytes", "per_request", "requests", "pause_s"),
    [(200, 5, 400, 0.0), (16_384, 1, 400, 0.0), (1_000_000, 1, 40, 0.02)],
    ids=["many parts in a record", "a little more than a record", "more than a socket holds"],
)
def test_frames_arrive_as_they_are(
    batch_bytes: int, per_request: int, requests: int, pause_s: float, tmp_path: Path
) -> None:
    """Sockets that are full are tried again: 16 MB are under way, and the broker is slow."""

    def slowly(_partition: int) -> int:
        time.sleep(pause_s)
        return 0

    certificate = make_certificate(tmp_path)
    server, _ = tls_contexts(certificate)
    with FakeBroker(error_of=slowly, tls=server, receive_bytes=64 << 10) as broker:
        target = load.Target(
            bootstrap=broker.address, topic="t", no_metadata=True, ca_file=certificate[0]
        )
        done = generate(
            target, "--mode", "produce", "--no-metadata", "--partitions", "5", "--idempotent",
            "--producer-id-base", "900", "--connections", "2", "--in-flight", "16",
            "--batch-bytes", str(batch_bytes), "--partitions-per-request", str(per_request),
            "--requests", str(requests),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert broker.problems == []
    assert [batch.size for batch in broker.produced] == [batch_bytes] * requests * per_request


@pytest.mark.slow
def test_errors_are_counted_by_code(ours: Peer) -> None:
    target = ours.target(topic_of(ours, 1, max_message_bytes="1000"), Security.TLS)
    options = ("--mode", "produce", "--connections", "2", "--requests", "40")
    with contextlib.suppress(load.LoadFailed):  # Returns when the partition has a leader.
        load.send(target, partitions=1, batch_bytes=500, requests=1, wait_s=PATIENCE_S)
    done = generate(target, *options, "--batch-bytes", "4096")
    assert done.returncode == load.ERRORS_IN_RESPONSES
    assert json.loads(done.stdout)["errors"] == {str(TOO_LARGE): 40}


@pytest.mark.slow
def test_transactions_by_tls(ours: Peer) -> None:
    topic = topic_of(ours, 2)
    each = Transactions(records=10, record_bytes=1000)
    result = load.send_transactions(
        ours.target(topic, Security.TLS), each, partitions=2, total_bytes=200_000, in_flight=5
    )
    assert result.requests == 20


def test_a_wrong_password_ends_it(ours: Peer) -> None:
    right = ours.target("t", Security.LOGIN)
    wrong = load.Target(bootstrap=right.bootstrap, topic="t", login="bench:guessed")
    done = generate(wrong, "--mode", "produce")
    assert done.returncode == 1
    assert done.stderr == f"loadgen: SaslAuthenticate: error {AUTHENTICATION_FAILED}\n"


def refused(target: load.Target) -> str:
    """What the generator says of a handshake that fails."""
    done = generate(target, "--mode", "produce")
    assert (done.returncode, done.stdout) == (1, "")
    start = f"loadgen: TLS handshake with {target.bootstrap}: "
    assert done.stderr.startswith(start), done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix(start).strip()


def test_a_certificate_of_somebody_else_ends_it(ours: Peer, tmp_path: Path) -> None:
    stranger, _ = make_certificate(tmp_path)
    address = ours.target("t", Security.TLS).bootstrap
    target = load.Target(bootstrap=address, topic="t", ca_file=stranger)
    assert refused(target) in {"self-signed certificate", "self signed certificate"}


def test_a_listener_without_tls_ends_it(ours: Peer) -> None:
    with_tls = ours.target("t", Security.TLS)
    plain = load.Target(bootstrap=ours.bootstrap, topic="t", ca_file=with_tls.ca_file)
    assert refused(plain)


def test_a_missing_file_of_certificates_ends_it(ours: Peer, tmp_path: Path) -> None:
    target = load.Target(bootstrap=ours.bootstrap, topic="t", ca_file=tmp_path / "none")
    done = generate(target, "--mode", "produce")
    assert done.returncode == 1
    assert done.stderr.startswith(f"loadgen: cannot load certificates from {tmp_path}/none: ")


@contextlib.contextmanager
def shaking_hands(host: str, context: ssl.SSLContext) -> Iterator[str]:
    """A server that does that with one client; yields its address."""

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            connection.settimeout(PATIENCE_S)
            with connection, context.wrap_socket(connection, server_side=True) as stream:
                stream.recv(1)

    with socket.create_server((host, 0)) as listener:
        listener.settimeout(PATIENCE_S)
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield f"{host}:{listener.getsockname()[1]}"
        server.join(PATIENCE_S)


def test_a_server_without_tls_1_3_ends_it(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    server, _ = tls_contexts(certificate)
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    with shaking_hands("127.0.0.1", server) as address:
        told = refused(load.Target(bootstrap=address, topic="t", ca_file=certificate[0]))
    assert "protocol version" in told


def test_a_certificate_for_another_host_ends_it(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with shaking_hands("127.0.0.2", tls_contexts(certificate)[0]) as address:
        told = refused(load.Target(bootstrap=address, topic="t", ca_file=certificate[0]))
    assert told == "IP address mismatch"


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name", ["combined", "services", pytest.param("kafka", marks=pytest.mark.java)]
)
def test_every_peer_with_such_rows_can_run_them(name: str) -> None:
    rows = {
        "produce": Workload(
            name="produce", request_bytes=BATCH_BYTES, connections=2, in_flight=4, partitions=2,
            metric=Metric.REQUESTS,
        ),
        "fetch": Workload(
            name="fetch", fetch=True, request_bytes=1 << 20, connections=2, in_flight=1,
            partitions=2, metric=Metric.REQUESTS,
        ),
    }  # fmt: skip
    with secured(name) as peer:
        topic = topic_of(peer, 2)
        for security in SECURITIES:
            target = peer.target(topic, security)
            load.send(
                target, partitions=2, batch_bytes=BATCH_BYTES, requests=200, wait_s=PATIENCE_S
            )
            for row in rows.values():
                assert load.run(row, target, seconds=0.5, warmup_seconds=0.1).requests > 0
