"""The interfaces of a measured broker, and of one whose nodes can be broken."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException

from tests.bench import load
from tests.bench.credentials import Credentials
from tests.bench.workloads import Security
from tests.support import kafka_peer, measured_process

RETENTION_CHECK_MS = 500
# A node is listed, and its port open, a little before it is unfenced.
UNFENCE_TIMEOUT_S = 15.0
UNFENCE_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Those that a peer has beside the plain one, and what is shown there."""

    securities: tuple[Security, ...]
    credentials: Credentials


class Peer(ABC):
    """A measured broker.

    Lifecycle: `prepare` (may be slow: formatting, downloads), `launch`, `wait_ready`, any use,
    `stop`; after `stop` the data is gone and the cycle may start again.
    """

    name: str
    bootstrap: str = ""
    nodes: int = 1
    no_metadata = False
    has_transactions = True
    can_be_secured = False
    """Whether it may have `listeners`, which are set before `prepare`."""
    listeners: Listeners | None = None

    @abstractmethod
    def prepare(self) -> None:
        """Does everything that comes before the process start."""

    @abstractmethod
    def launch(self) -> None:
        """Starts the process without waiting for it."""

    @abstractmethod
    def wait_ready(self) -> None:
        """Returns when the port accepts and all nodes are known. Raises RuntimeError."""

    @abstractmethod
    def stop(self) -> None:
        """Ends the process and removes its data. Idempotent."""

    @abstractmethod
    def pids(self) -> Sequence[int]:
        """The processes that, with their descendants, are measured; none if they are not known."""

    def resident_bytes(self) -> int | None:
        """Resident memory of all its processes; None if they are not known."""
        pids = self.pids()
        return sum(map(measured_process.resident_bytes, pids)) if pids else None

    def cpu_seconds(self) -> float | None:
        """Processor time of all its processes; None if they are not known."""
        pids = self.pids()
        return sum(map(measured_process.cpu_seconds, pids)) if pids else None

    def minor_faults(self) -> int | None:
        """Page faults without I/O of all its processes; None if they are not known."""
        pids = self.pids()
        return sum(map(measured_process.minor_faults, pids)) if pids else None

    @abstractmethod
    def version(self) -> str:
        """A description for the report."""

    def address_of(self, security: Security) -> str:
        """`bootstrap` of one of `listeners`. Raises LookupError if there is none."""
        raise LookupError(f"{self.name} has no listener for {security.value}")

    def target(self, topic: str, security: Security = Security.PLAINTEXT) -> load.Target:
        """How a load reaches a topic. Raises LookupError."""
        if security is Security.PLAINTEXT:
            return load.Target(bootstrap=self.bootstrap, topic=topic, no_metadata=self.no_metadata)
        address = self.address_of(security)
        assert self.listeners is not None
        shown = self.listeners.credentials
        return load.Target(
            bootstrap=address,
            topic=topic,
            login=shown.login if security is Security.LOGIN else "",
            ca_file=shown.certificate if security is Security.TLS else None,
        )

    def create_topic(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        *,
        replication: int = 1,
        deep: bool = False,
    ) -> None:
        """Creates a topic; `deep` requests deep validation if that is an option."""
        del deep
        deadline = time.monotonic() + UNFENCE_TIMEOUT_S
        while True:
            try:
                kafka_peer.create_topic(
                    self.bootstrap, name, partitions, configs, replication=replication
                )
            except KafkaException as error:
                code = error.args[0].code()
                if code != KafkaError.INVALID_REPLICATION_FACTOR or time.monotonic() > deadline:
                    raise
                time.sleep(UNFENCE_POLL_S)
            else:
                return

    def delete_topic(self, name: str) -> None:
        """Deletes a topic; its files may be deleted later."""
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


class BreakablePeer(Peer):
    """A peer whose nodes can be killed, paused and ended, each by its process."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The separate addresses in `bootstrap`: some answer while another does not."""
        return tuple(self.bootstrap.split(","))

    @abstractmethod
    def node_pid(self, node_id: int) -> int:
        """The process of a running node. Raises RuntimeError if it does not run."""

    @abstractmethod
    def hold(self) -> None:
        """Keeps ended nodes from restarting until `bring_back`."""

    @abstractmethod
    def bring_back(self, node_id: int) -> None:
        """Lets a node that has ended start again on its data; does not wait for it."""

    def active_controller(self) -> int | None:
        """The node that is the active controller; None if controllers are separate processes."""
        return None


def first_line(command: list[str]) -> str:
    """The first line of a program's output (its version), or the error."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except OSError as error:
        return f"(unknown: {error})"
    lines = (done.stdout or done.stderr).splitlines()
    return lines[0] if lines else "(unknown)"
