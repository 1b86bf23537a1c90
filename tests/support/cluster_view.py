"""Partitions as a gateway's Metadata shows them: leaders, epochs, ISRs and offline replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from highwater.embed.clients.kafka_client import KafkaClient
from highwater.model.errors import HighwaterError
from tests.support.process import wait_until

_TIMEOUT_S = 5.0

Partitions = dict[int, "PartitionView"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition as clients see it; `leader` is -1 if there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: frozenset[int]
    offline: frozenset[int]
    """Replicas on nodes that are fenced."""


def view_topics(bootstrap: str) -> dict[str, Partitions]:
    """All topics by name. Raises HighwaterError when there is no answer."""
    with KafkaClient(bootstrap, timeout_s=_TIMEOUT_S) as client:
        topics = client.metadata(None).topics
    return {
        topic.name: {
            part.partition_index: PartitionView(
                partition=part.partition_index,
                leader=part.leader_id,
                leader_epoch=part.leader_epoch,
                replicas=tuple(part.replica_nodes),
                isr=frozenset(part.isr_nodes),
                offline=frozenset(part.offline_replicas),
            )
            for part in topic.partitions
        }
        for topic in topics
        if topic.name is not None
    }


def view(bootstrap: str, topic: str) -> Partitions:
    """One topic's partitions by number; none if it does not exist. Raises HighwaterError."""
    return view_topics(bootstrap).get(topic, {})


def wait_for_view(
    bootstrap: str,
    topic: str,
    condition: Callable[[Partitions], bool],
    *,
    timeout_s: float,
    what: str,
) -> Partitions:
    """Polls Metadata until the condition holds; returns the partitions. Raises TimeoutError.

    While the gateway does not answer, the condition counts as not met.
    """
    last: Partitions = {}

    def holds() -> bool:
        nonlocal last
        try:
            last = view(bootstrap, topic)
        except (HighwaterError, OSError):
            return False
        return bool(last) and condition(last)

    try:
        wait_until(holds, timeout_s=timeout_s, what=what)
    except TimeoutError as error:
        raise TimeoutError(f"{error}; Metadata says {list(last.values())}") from None
    return last


def is_whole(partitions: Partitions) -> bool:
    """True if every partition has a leader, and all of its replicas are in sync."""
    return all(p.leader >= 0 and p.isr == set(p.replicas) for p in partitions.values())
