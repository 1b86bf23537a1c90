"""Apache Kafka as a peer: one combined KRaft node, or three."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from highwater.embed.supervisor.readiness import serves_all_nodes
from tests.bench.credentials import PASSWORD, USER
from tests.bench.peer import RETENTION_CHECK_MS, BreakablePeer, Listeners, first_line
from tests.bench.workloads import Security
from tests.support import kafka_peer
from tests.support.java_tools import KAFKA_VERSION

KAFKA = "kafka"
KAFKA_NODES = {KAFKA: 1, "kafka3": 3}
START_TIMEOUT_S = 60.0
POLL_S = 0.05
ADMIN_TIMEOUT_MS = 10_000
# Kafka's own names for what stands between client and broker.
_PROTOCOLS: Mapping[Security, str] = {Security.TLS: "SSL", Security.LOGIN: "SASL_PLAINTEXT"}
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


class ApacheKafka(BreakablePeer):
    """Combined KRaft nodes with 1 GiB heap each, and Kafka's default threads.

    1 GiB is the default of Kafka's own start script, used here also for each of three nodes on one
    machine; a smaller heap would be our choice, not Kafka's.
    """

    can_be_secured = True

    def __init__(self, name: str = KAFKA) -> None:
        self.name = name
        self.nodes = KAFKA_NODES[name]
        self._kafka = self._make()

    def _make(self) -> kafka_peer.KafkaPeer:
        others = self.listeners.securities if self.listeners else ()
        return kafka_peer.KafkaPeer(
            nodes=self.nodes,
            properties={
                "log.retention.check.interval.ms": str(RETENTION_CHECK_MS),
                **(_security_properties(self.listeners) if self.listeners else {}),
            },
            protocols=tuple(_PROTOCOLS[each] for each in others),
        )

    def prepare(self) -> None:
        self._kafka = self._make()
        self._kafka.format()
        self.bootstrap = self._kafka.bootstrap

    def launch(self) -> None:
        for node_id in range(1, self.nodes + 1):
            self._kafka.launch(node_id)

    def wait_ready(self) -> None:
        self._kafka.wait_ready()
        if self.nodes == 1:
            return
        deadline = time.monotonic() + START_TIMEOUT_S
        # Every node must know all others, or the next topic cannot have its replicas.
        for address in self.addresses:
            host, _, port = address.rpartition(":")
            while not serves_all_nodes(host, int(port), self.nodes):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{address} does not know {self.nodes} nodes")
                time.sleep(POLL_S)

    def address_of(self, security: Security) -> str:
        if self.listeners is None or security not in self.listeners.securities:
            return super().address_of(security)
        return self._kafka.bootstrap_of(_PROTOCOLS[security])

    def stop(self) -> None:
        if self.nodes > 1:
            self._kafka.kill_all()
        self._kafka.stop()

    def pids(self) -> Sequence[int]:
        return self._kafka.pids

    def version(self) -> str:
        nodes = f"{self.nodes} nodes with a heap of" if self.nodes > 1 else "heap"
        java = first_line(["java", "-version"])
        return f"Apache Kafka {KAFKA_VERSION}, {nodes} 1 GiB, Java {java}"

    def node_pid(self, node_id: int) -> int:
        pids = self._kafka.pids
        if len(pids) != self.nodes:
            raise RuntimeError(f"{len(pids)} of {self.nodes} Kafka nodes run")
        return pids[node_id - 1]

    def hold(self) -> None:
        """Does nothing: an ended Kafka node does not restart by itself."""

    def bring_back(self, node_id: int) -> None:
        self._kafka.kill(node_id)  # The process has ended; this reads its exit code.
        self._kafka.launch(node_id)

    def active_controller(self) -> int:
        # Metadata names any node as controller (KIP-590): only the quorum knows it.
        from kafka.admin import KafkaAdminClient

        admin = KafkaAdminClient(
            bootstrap_servers=list(self.addresses), request_timeout_ms=ADMIN_TIMEOUT_MS
        )
        try:
            quorum = admin.describe_metadata_quorum()
        finally:
            admin.close()
        return int(quorum["topics"][0]["partitions"][0]["leader_id"])


def _security_properties(listeners: Listeners) -> dict[str, str]:
    """Kafka's settings for TLS 1.3 with files in PEM (KIP-651), and for SASL PLAIN."""
    properties: dict[str, str] = {}
    if Security.TLS in listeners.securities:
        properties["ssl.keystore.type"] = "PEM"
        properties["ssl.keystore.location"] = str(listeners.credentials.keystore)
    if Security.LOGIN in listeners.securities:
        properties["sasl.enabled.mechanisms"] = "PLAIN"
        properties["listener.name.sasl_plaintext.plain.sasl.jaas.config"] = (
            f'{_PLAIN_MODULE} required user_{USER}="{PASSWORD}";'
        )
    return properties
