"""A topic's partitions, from any of several addresses."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from highwater.model.errors import HighwaterError
from tests.support.cluster_view import Partitions, is_whole, view

POLL_S = 0.05


def view_from_any(addresses: Sequence[str], topic: str) -> Partitions:
    """The first answer; empty if there is none, or no such topic yet."""
    for address in addresses:
        try:
            found = view(address, topic)
        except (HighwaterError, OSError):
            continue
        if found:
            return found
    return {}


def wait_for(
    addresses: Sequence[str],
    topic: str,
    condition: Callable[[Partitions], bool],
    *,
    timeout_s: float,
    what: str,
) -> Partitions:
    """Asks until the condition holds; the last answer. Raises TimeoutError."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = view_from_any(addresses, topic)
        if found and condition(found):
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{what}: not within {timeout_s:.0f} s; Metadata says {_some(found)}"
            )
        time.sleep(POLL_S)


def wait_until_whole(addresses: Sequence[str], topic: str, timeout_s: float) -> Partitions:
    """Waits until every partition has a leader and a full ISR. Raises TimeoutError."""
    return wait_for(addresses, topic, is_whole, timeout_s=timeout_s, what=f"full ISRs of {topic}")


def is_in_every_isr(node_id: int, partitions: Partitions) -> bool:
    """True if the node is in sync for all partitions of which it has a replica."""
    return all(node_id in p.isr for p in partitions.values() if node_id in p.replicas)


def is_in_no_isr(node_id: int, partitions: Partitions) -> bool:
    """True if the node is in no partition's ISR."""
    return all(node_id not in p.isr for p in partitions.values())


def _some(partitions: Partitions) -> str:
    return str(list(partitions.values())[:3])
