"""The brokers that are measured: each can be started, stopped, asked for topics and memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.support import kafka_peer
from tests.support.java_tools import KAFKA_VERSION
from tests.support.measured_process import (
    cpu_seconds,
    resident_bytes,
    tail,
    wait_for_exit,
    wait_until_listening,
)
from tests.support.process import free_port_block

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
RETENTION_CHECK_MS = 500

HIGHWATER = Path(sys.executable).with_name("highwater")
# How `highwater` is started; the only place to change when its options do.
HIGHWATER_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "embedded": ("up", "--host", "127.0.0.1", "--port", "{port}", "--data-dir", "{data}"),
    "services": (
        "up", "--nodes", "1", "--separate",
        "--host", "127.0.0.1", "--port", "{port}", "--data-dir", "{data}",
    ),
}  # fmt: skip
HIGHWATER_ENVIRONMENT = {"HIGHWATER_PARTITION_RETENTION_CHECK_INTERVAL_MS": str(RETENTION_CHECK_MS)}
# Topic options that only Highwater knows.
HIGHWATER_DEEP_VALIDATION = {"record.validation": "deep"}
# Bootstrap, one port for the node, and room for those of a larger cluster.
HIGHWATER_PORT_BLOCK = 8


class Peer(ABC):
    """A broker under measurement.

    Lifecycle: `prepare` (may be slow: formatting, downloads), `launch`, `wait_ready`, any use,
    `stop`; after `stop` the data is gone and the cycle may start again.
    """

    name: str
    bootstrap: str = ""
    no_metadata = False

    @abstractmethod
    def prepare(self) -> None:
        """Everything that comes before the process start."""

    @abstractmethod
    def launch(self) -> None:
        """Starts the process without waiting for it."""

    @abstractmethod
    def wait_ready(self) -> None:
        """Returns when the port accepts. Raises RuntimeError."""

    @abstractmethod
    def stop(self) -> None:
        """Ends the process and removes its data. Idempotent."""

    @abstractmethod
    def resident_bytes(self) -> int | None:
        """Resident memory of all its processes; None when they are not known."""

    @abstractmethod
    def cpu_seconds(self) -> float | None:
        """Processor time of all its processes; None when they are not known."""

    @abstractmethod
    def version(self) -> str:
        """For the report."""

    def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str], *, deep: bool = False
    ) -> None:
        """Creates a topic; `deep` asks for deep validation where that is an option."""
        del deep
        kafka_peer.create_topic(self.bootstrap, name, partitions, configs)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic; files may go later."""
        kafka_peer.delete_topics(self.bootstrap, [name])

    def start(self) -> None:
        """`prepare`, `launch` and `wait_ready`."""
        self.prepare()
        try:
            self.launch()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise


class ApacheKafka(Peer):
    """One combined KRaft node, heap 1 GiB, threads as Kafka's defaults have them."""

    name = "kafka"

    def __init__(self) -> None:
        properties = {
            "log.retention.check.interval.ms": str(RETENTION_CHECK_MS),
            "num.partitions": "4",
        }
        self._kafka = kafka_peer.KafkaPeer(properties=properties)

    def prepare(self) -> None:
        self._kafka.format()
        self.bootstrap = self._kafka.bootstrap

    def launch(self) -> None:
        self._kafka.launch(1)

    def wait_ready(self) -> None:
        self._kafka.wait_ready()

    def stop(self) -> None:
        self._kafka.stop()

    def resident_bytes(self) -> int:
        return self._kafka.resident_bytes()

    def cpu_seconds(self) -> float:
        return self._kafka.cpu_seconds()

    def version(self) -> str:
        return f"Apache Kafka {KAFKA_VERSION}, Java {_first_line(['java', '-version'])}"


class Highwater(Peer):
    """`highwater up` in one of its modes, with a data directory of its own."""

    def __init__(self, mode: str) -> None:
        self.name = mode
        self._root: Path | None = None
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix=f"highwater-{self.name}-"))
        self._port = free_port_block(HIGHWATER_PORT_BLOCK)
        self.bootstrap = f"127.0.0.1:{self._port}"

    def launch(self) -> None:
        assert self._root is not None
        words = HIGHWATER_COMMANDS[self.name]
        command = [word.format(port=self._port, data=self._root / "data") for word in words]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(HIGHWATER), *command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._root,
                env={**os.environ, **HIGHWATER_ENVIRONMENT},
            )  # fmt: skip

    def wait_ready(self) -> None:
        assert self._process is not None
        try:
            wait_until_listening(self._process, self._port, START_TIMEOUT_S)
        except RuntimeError as error:
            raise RuntimeError(f"highwater ({self.name}): {error}\n{tail(self._log)}") from error

    def stop(self) -> None:
        if self._process is not None:
            wait_for_exit(self._process, STOP_TIMEOUT_S)
            self._process = None
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None

    def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str], *, deep: bool = False
    ) -> None:
        extra = HIGHWATER_DEEP_VALIDATION if deep else {}
        super().create_topic(name, partitions, {**configs, **extra})

    def resident_bytes(self) -> int | None:
        return resident_bytes(self._process.pid) if self._process else None

    def cpu_seconds(self) -> float | None:
        return cpu_seconds(self._process.pid) if self._process else None

    def version(self) -> str:
        return f"Highwater {_first_line([str(HIGHWATER), '--version'])}, {self.name}"

    @property
    def _log(self) -> Path:
        assert self._root is not None
        return self._root / "stdout.log"


class External(Peer):
    """A broker that somebody else started; with `no_metadata` it need not know about topics."""

    def __init__(self, address: str, *, no_metadata: bool) -> None:
        self.name = f"external:{address}"
        self.bootstrap = address
        self.no_metadata = no_metadata
        self._pid: int | None = None

    def prepare(self) -> None:
        port = int(self.bootstrap.rpartition(":")[2])
        listening = [
            each.pid
            for each in psutil.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr.port == port
        ]
        self._pid = next((pid for pid in listening if pid is not None), None)

    def launch(self) -> None:
        """Nothing: it runs already."""

    def wait_ready(self) -> None:
        """Nothing: the first run tells."""

    def stop(self) -> None:
        """Nothing: it is not ours to stop."""

    def create_topic(
        self, name: str, partitions: int, configs: Mapping[str, str], *, deep: bool = False
    ) -> None:
        if not self.no_metadata:
            super().create_topic(name, partitions, configs, deep=deep)

    def delete_topic(self, name: str) -> None:
        if not self.no_metadata:
            super().delete_topic(name)

    def resident_bytes(self) -> int | None:
        return resident_bytes(self._pid) if self._pid else None

    def cpu_seconds(self) -> float | None:
        return cpu_seconds(self._pid) if self._pid else None

    def version(self) -> str:
        return f"a broker at {self.bootstrap}"


def make_peer(text: str) -> Peer:
    """`kafka`, `embedded`, `services` or `external:HOST:PORT[:no-metadata]`.

    Raises ValueError.
    """
    if text == ApacheKafka.name:
        return ApacheKafka()
    if text in HIGHWATER_COMMANDS:
        return Highwater(text)
    kind, _, address = text.partition(":")
    bare = address.removesuffix(":no-metadata")
    if kind == "external" and bare.count(":") == 1:
        return External(bare, no_metadata=bare != address)
    raise ValueError(f"unknown peer {text!r}")


def _first_line(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except OSError as error:
        return f"(unknown: {error})"
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0] if lines else "(unknown)"
