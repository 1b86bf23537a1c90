"""Known bugs of the controller's decisions, put in by other functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from highwater.controller.core.alter_reassignments import alter_reassignments
from highwater.controller.core.change_isr import alter_partitions
from highwater.controller.core.hand_over import finish_moves, waiting_moves
from highwater.controller.core.membership import change_nodes
from highwater.controller.core.outcome import PENDING_REVISION
from highwater.model.cluster import ClusterDelta, PartitionState
from highwater.model.ids import LeaderEpoch


def alters_without_epoch(image: Any, leader: Any, proposals: Any, min_isr: Any, **more: Any) -> Any:
    """AlterPartition is no compare-and-set: whatever comes is committed."""
    present = image.topics[proposals[0].topic_id].partitions[0]
    current = [replace(p, partition_epoch=present.partition_epoch) for p in proposals]
    return alter_partitions(image, leader, current, min_isr, **more)


def elects_anybody(image: Any, changed: Any, rules: Any, **more: Any) -> Any:
    """Elections take any live replica, as if every topic allowed unclean elections."""
    return change_nodes(image, changed, replace(rules, unclean=lambda _: True), **more)


def keeps_the_epoch(image: Any, changed: Any, rules: Any, **more: Any) -> Any:
    """A new leader in the same epoch."""
    decision = change_nodes(image, changed, rules, **more)

    def keep(before: PartitionState, after: PartitionState) -> PartitionState:
        return replace(after, leader_epoch=max(before.leader_epoch, LeaderEpoch(1)))

    return _changed_so(image, decision, keep)


def _changed_so(image: Any, decision: Any, change: Any) -> Any:
    """The decision, its partition changed by `change(before, after)`."""
    if decision.delta is None or not decision.delta.partitions:
        return decision
    ((topic_id, (after,)),) = decision.delta.partitions.items()
    changed = change(image.topics[topic_id].partitions[0], after)
    delta = replace(decision.delta, partitions={topic_id: (changed,)})
    return replace(decision, delta=delta)


def _keep_epoch(before: PartitionState, after: PartitionState) -> PartitionState:
    gone = set(before.replicas) - set(after.replicas)
    if gone and after.leader == before.leader:
        return replace(after, leader_epoch=before.leader_epoch)
    return after


def alters_keeping_the_epoch(image: Any, *args: Any, **more: Any) -> Any:
    """Replicas go while the leader epoch stays, so that their old fetches may count again."""
    return _changed_so(image, alter_partitions(image, *args, **more), _keep_epoch)


def reassigns_keeping_the_epoch(*args: Any, **more: Any) -> Any:
    """The same for moves that begin or are called back."""
    return _changed_so(args[0], alter_reassignments(*args, **more), _keep_epoch)


def moves_at_once(*args: Any, **more: Any) -> Any:
    """A move is completed when it begins: the added replicas are taken to have everything."""

    def finish(_: PartitionState, after: PartitionState) -> PartitionState:
        target = tuple(n for n in after.replicas if n not in after.removing_replicas)
        return replace(
            after,
            replicas=target,
            isr=target,
            leader=target[0],
            leader_epoch=LeaderEpoch(after.leader_epoch + 1),
            last_known_leader=target[0],
            eligible_leaders=(),
            adding_replicas=(),
            removing_replicas=(),
        )

    return _changed_so(args[0], alter_reassignments(*args, **more), finish)


def alters_without_asking(*args: Any, leader_first: bool, **more: Any) -> Any:
    """A move is completed with the proposal that makes it possible, whoever leads."""
    del leader_first
    return alter_partitions(*args, **more)


def reassigns_without_asking(*args: Any, leader_first: bool, **more: Any) -> Any:
    """The same for moves that can be completed when they begin."""
    del leader_first
    return alter_reassignments(*args, **more)


def elects_without_asking(image: Any, changed: Any, rules: Any, **more: Any) -> Any:
    """An election, of whatever leader, completes a move that waits for its present leader."""
    changed = tuple(changed)
    decision = change_nodes(image, changed, rules, **more)
    delta = decision.delta or ClusterDelta(revision=PENDING_REVISION)
    after = image.apply(replace(delta, revision=image.revision + 1))
    done = finish_moves(after, list(waiting_moves(after)), rules, more["offline"])
    if done.delta is None:
        return decision
    # One change, though it was decided in two steps.
    ((topic_id, (moved,)),) = done.delta.partitions.items()
    present = image.topics[topic_id].partitions[0]
    moved = replace(moved, partition_epoch=present.partition_epoch + 1)
    return replace(decision, delta=replace(delta, partitions={topic_id: (moved,)}))


def calls_back_without_asking(
    image: Any, instance: Any, wanted: Any, *args: Any, leader_first: bool, **more: Any
) -> Any:
    """A move that was adding the present leader ends at once when it is called back."""
    asks = leader_first and all(one.replicas is not None for one in wanted)
    return alter_reassignments(image, instance, wanted, *args, leader_first=asks, **more)


def never_doubts(*_: Any) -> bool:
    """A node that comes back is taken to have everything."""
    return True


def trusts_boot_ids(_: Any, __: Any, boot_id_before: str, boot_id: str) -> bool:
    """The kernel is the same, so the directory must be (KAFKA-14139)."""
    return bool(boot_id_before) and boot_id_before == boot_id


def keeps_eligible_leaders(partition: PartitionState, *, min_isr: int) -> PartitionState:
    """A lower minimum leaves the eligible leaders as they are."""
    del min_isr
    return replace(partition, partition_epoch=partition.partition_epoch + 1)
