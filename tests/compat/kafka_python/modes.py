"""The clusters that kafka-python's suite runs on, with the settings that it expects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.compat.kafka_python.exclusions import EVERYWHERE, THREE_NODES
from tests.compat.kafka_python.suite import (
    BROKER_SETTINGS,
    CA_FILE,
    MECHANISMS,
    PASSWORD,
    USER,
    Broker,
    Suite,
)
from tests.compat.kafka_python.verdict import Verdict
from tests.support.certificates import make_authority
from tests.support.cluster import COMPLAINT_WORDS
from tests.support.embedded_cluster import EmbeddedCluster
from tests.support.nodes_cluster import NodesCluster
from tests.support.process import free_port_block

MODES: Final = ("embedded", "nodes3")
_HOST: Final = "127.0.0.1"
_ADMIN_TIMEOUT_S: Final = 60.0
_ITERATIONS: Final = 4096
"""Kafka's least."""
_STALLED: Final = "event_loop_stalled"
"""A log line that tells of a busy machine, and not of the suite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRun:
    """What the suite found on one cluster."""

    verdict: Verdict
    complaints: Sequence[str]
    """Of the cluster's log: unexpected errors."""

    @property
    def good(self) -> bool:
        """True if all is as expected, on both sides."""
        return self.verdict.good and not self.complaints

    def report(self) -> str:
        """For the terminal."""
        told = [f"COMPLAINT {line}" for line in self.complaints]
        return "\n".join([*told, *self.verdict.lines()])


def run_mode(mode: str, directory: Path, tests: Sequence[str] = ()) -> SuiteRun:
    """Starts a cluster, runs all tests of the suite or some on it, and ends it.

    `directory` is empty and keeps all logs. Raises ValueError for an unknown mode, and what
    `Suite.run` raises.
    """
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}: {' or '.join(MODES)}")
    node_count = 1 if mode == "embedded" else 3
    doors = _make_doors(directory / "certificates", node_count)
    cluster = _cluster(mode, directory / "cluster", (*BROKER_SETTINGS, *doors.settings))
    try:
        cluster.start()
        _add_user(cluster.bootstrap)
        broker = Broker(
            listeners={"PLAINTEXT": cluster.bootstrap, **doors.listeners},
            certificates=doors.certificates,
        )
        suite = Suite(directory=directory / "suite")
        verdict = suite.run(broker, EVERYWHERE if node_count == 1 else THREE_NODES, tests)
        complaints = cluster.process.lines_with(*COMPLAINT_WORDS, without=(_STALLED,))
        return SuiteRun(verdict=verdict, complaints=complaints)
    finally:
        cluster.stop()


def _cluster(mode: str, directory: Path, settings: Sequence[str]) -> EmbeddedCluster | NodesCluster:
    if mode == "embedded":
        return EmbeddedCluster(directory, settings=(*settings, "partition.node_id=0"))
    return NodesCluster(directory, mode=mode, node_count=3, settings=settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doors:
    """Listeners beside the default one."""

    settings: Sequence[str]
    listeners: Mapping[str, str]
    certificates: Path


def _make_doors(certificates: Path, node_count: int) -> _Doors:
    """One for logins, one for TLS with a certificate that is made here."""
    authority = make_authority(certificates)
    (certificates / CA_FILE).write_bytes(authority.certificate.read_bytes())
    cert, key = authority.issue("localhost")
    block = node_count + 1
    port = free_port_block(2 * block)
    return _Doors(
        settings=(
            f"gateway.listeners.sasl.port={port}",
            f"gateway.listeners.sasl.sasl_mechanisms={json.dumps(MECHANISMS)}",
            f"gateway.listeners.ssl.port={port + block}",
            f"gateway.listeners.ssl.tls.cert_file={cert}",
            f"gateway.listeners.ssl.tls.key_file={key}",
        ),
        listeners={"SASL_PLAINTEXT": f"{_HOST}:{port}", "SSL": f"{_HOST}:{port + block}"},
        certificates=certificates,
    )


def _add_user(bootstrap: str) -> None:
    """The suite's user, for both kinds of SCRAM, and with them for PLAIN."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(kind, _ITERATIONS)
        change = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        # Alone: one request changes a user once.
        admin.alter_user_scram_credentials([change])[USER].result(_ADMIN_TIMEOUT_S)
