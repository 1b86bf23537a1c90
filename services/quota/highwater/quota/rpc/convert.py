"""Converts between the messages of highwater.api.quota.v1 and the ledger's values."""

from typing import Final

from highwater.api.quota.v1 import quota_service_pb2 as pb
from highwater.model.errors import InvalidRequestError
from highwater.model.ids import InstanceId, NodeId
from highwater.quota.core.allocation import Allocation, NodeAllocations, Share
from highwater.quota.core.usage import InstanceUsage, NodeUsage

UNLIMITED: Final = -1

TICK_MS_MAX: Final = 60_000
"""A report about a longer tick is too old to be of use."""


def usage_from_pb(message: pb.UsageReport) -> NodeUsage:
    """Raises InvalidRequestError for an invalid tick or byte count."""
    if not 0 < message.tick_ms <= TICK_MS_MAX:
        raise InvalidRequestError(f"tick_ms {message.tick_ms} is not in 1..{TICK_MS_MAX}")
    return NodeUsage(
        node_id=NodeId(message.node_id),
        node_epoch=message.node_epoch,
        tick_ms=message.tick_ms,
        instances={InstanceId(one.instance): _instance(one) for one in message.instances},
        applied_generation=message.applied_generation,
    )


def _instance(message: pb.InstanceUsage) -> InstanceUsage:
    usage = InstanceUsage(
        produced=message.produced_bytes,
        consumed=message.consumed_bytes,
        held_produce=message.held_produce_bytes,
        held_consume=message.held_consume_bytes,
        leader_partitions=message.leader_partitions,
        stored=message.stored_bytes,
        produce_rate=_optional(message, "produce_bytes_per_second"),
        consume_rate=_optional(message, "consume_bytes_per_second"),
        storage_exhausted=message.storage_exhausted,
    )
    counts = (usage.produced, usage.consumed, usage.held_produce, usage.held_consume, usage.stored)
    if min(*counts, usage.produce_rate or 0, usage.consume_rate or 0) < 0:
        raise InvalidRequestError(f"negative bytes reported for instance {message.instance}")
    return usage


def allocations_to_pb(allocations: NodeAllocations) -> pb.Allocations:
    """One node's allocations as a message."""
    return pb.Allocations(
        generation=allocations.generation,
        allocations=[_allocation(one) for one in allocations.allocations],
        expires_in_ms=allocations.expires_in_ms,
    )


def _allocation(allocation: Allocation) -> pb.Allocation:
    return pb.Allocation(
        instance=allocation.instance,
        produce_bytes_per_second=_rate(allocation.produce),
        consume_bytes_per_second=_rate(allocation.consume),
        floor_produce_bytes_per_second=_floor(allocation.produce),
        floor_consume_bytes_per_second=_floor(allocation.consume),
        storage_exhausted=allocation.storage_exhausted,
        storage_limit_bytes=allocation.storage_limit,
        storage_left_bytes=allocation.storage_left,
    )


def _optional(message: pb.InstanceUsage, name: str) -> int | None:
    return int(getattr(message, name)) if message.HasField(name) else None


def _rate(share: Share | None) -> int:
    return UNLIMITED if share is None else share.rate


def _floor(share: Share | None) -> int:
    return UNLIMITED if share is None else share.floor
