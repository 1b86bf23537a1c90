"""A node with instances for `tenants`, and the neighbours that flood it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Self

from highwater.api.controller.v1 import cluster_pb2
from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.embed.clients.controller_session import converse
from highwater.embed.commands.quota import controller_address
from highwater.metadata.controller_client import ControllerClient
from highwater.metadata.endpoints import ControllerEndpoints
from tests.bench import load
from tests.bench.noise import CONNECTIONS
from tests.bench.peer_highwater import EMBEDDED, HIGHWATER, Highwater
from tests.bench.session import PREPARED_BATCH_BYTES, PRIME_BATCHES_PER_PARTITION, PRIME_TIMEOUT_S
from tests.bench.workloads import KIB
from tests.support import kafka_peer
from tests.support.maven import REPOSITORY
from tests.support.process import free_port_block

HOST: Final = "127.0.0.1"
LISTENER: Final = "login"
PORTS_OF_ONE: Final = 2
"""Bootstrap and node; an embedded one uses the first only."""
NOISY_BYTES_PER_S: Final = 10_000_000
NOISY_FACTOR: Final = 5
NOISY_BATCH_BYTES: Final = 16 * KIB
COMMAND_S: Final = 120.0
END_S: Final = 30.0
SEGMENTS: Final = {
    "segment.bytes": str(64 * KIB * KIB),
    "retention.bytes": str(64 * KIB * KIB),
    "file.delete.delay.ms": "100",
}


class Scene:
    """One embedded node with a second listener, on which clients log in."""

    def __init__(self) -> None:
        self._login_port = free_port_block(PORTS_OF_ONE)
        name = f"HIGHWATER_GATEWAY_LISTENERS__{LISTENER.upper()}"
        self._peer = Highwater(
            EMBEDDED,
            {
                f"{name}__HOST": HOST,
                f"{name}__PORT": str(self._login_port),
                f"{name}__SASL_MECHANISMS": '["PLAIN"]',
            },
        )

    def __enter__(self) -> Self:
        self._peer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._peer.stop()

    @property
    def bootstrap(self) -> str:
        """Of the default instance."""
        return self._peer.bootstrap

    @property
    def login_bootstrap(self) -> str:
        """The same, with a login."""
        return f"{HOST}:{self._login_port}"

    def create_user(self) -> str:
        """Makes a user; USER:PASSWORD."""
        self._run("user", "set", "bench", "--password-file", "-", given="measured\n")
        return "bench:measured"

    def instance(self, name: str, *, topics: int = 0, login: bool = False) -> str:
        """Makes an instance with topics of one partition; where its clients connect, or log in."""
        first, second = (free_port_block(PORTS_OF_ONE) for _ in range(2))
        self._make([(name, first, second)], topics)
        return f"{HOST}:{second if login else first}"

    def limited_instance(self, name: str) -> str:
        """Makes one that may produce NOISY_BYTES_PER_S."""
        address = self.instance(name)
        wanted = ("--produce-bytes-per-second", str(NOISY_BYTES_PER_S))
        self._run("quota", "set", "--instance", name, *wanted)
        return address

    def instances(self, count: int, *, topics: int) -> None:
        """Makes many, with a port each."""
        first = free_port_block(count)
        self._make([(f"tenant-{n}", first + n, None) for n in range(count)], topics)

    def create_topic(self, target: load.Target, partitions: int) -> None:
        """Returns when it takes records."""
        kafka_peer.create_topic(target.bootstrap, target.topic, partitions, SEGMENTS)
        load.send(
            target,
            partitions=partitions,
            batch_bytes=PREPARED_BATCH_BYTES,
            requests=partitions * PRIME_BATCHES_PER_PARTITION,
            wait_s=PRIME_TIMEOUT_S,
        )

    def _make(self, wanted: list[tuple[str, int, int | None]], topics: int) -> None:
        async def work(endpoints: ControllerEndpoints) -> None:
            client = ControllerClient(endpoints)
            for name, port, login in wanted:
                blocks = [cluster_pb2.InstanceListener(listener="default", port=port)]
                if login is not None:
                    blocks.append(cluster_pb2.InstanceListener(listener=LISTENER, port=login))
                state = cluster_pb2.InstanceState(instance=name, listeners=blocks)
                made = await client.create_instance(pb.CreateInstanceRequest(instance=state))
                assert not made.error.error_code, made.error.message
                if not topics:
                    continue
                names = [f"topic-{number}" for number in range(topics)]
                news = [pb.NewTopic(name=n, partitions=1, replication_factor=1) for n in names]
                request = pb.CreateTopicsRequest(instance=name, topics=news)
                created = await client.create_topics(request)
                assert not any(result.error.error_code for result in created.results)

        converse(controller_address(None, self._peer.data_dir), work)

    def _run(self, *arguments: str, given: str = "") -> None:
        done = subprocess.run(
            [str(HIGHWATER), *arguments, "--data-dir", str(self._peer.data_dir)],
            input=given, capture_output=True, text=True, timeout=COMMAND_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@contextmanager
def flood(kind: str, address: str) -> Iterator[None]:
    """Something is done as often as it can be (`noise`); it must have been done."""
    command = [sys.executable, "-m", "tests.bench.noise", kind, address]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            told, _ = process.communicate(timeout=END_S)
        assert json.loads(told)["done"] > 0, told


@contextmanager
def produce_flood(target: load.Target) -> Iterator[None]:
    """A tenant sends NOISY_FACTOR times its limit on 50 connections."""
    rate = NOISY_FACTOR * NOISY_BYTES_PER_S / NOISY_BATCH_BYTES
    command = [
        str(load.EXECUTABLE), *target.arguments, "--mode", "produce",
        "--connections", str(CONNECTIONS), "--in-flight", "8", "--rate", f"{rate:.0f}",
        "--batch-bytes", str(NOISY_BATCH_BYTES), "--seconds", "3600",
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield
            assert process.poll() is None, "the flood ended by itself"
        finally:
            process.kill()
