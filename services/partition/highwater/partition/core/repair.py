"""Which replicas can heal a damaged one, and what follows from their answers (R13).

Damage is found in one replica. The others in sync have the same bytes at the same offsets, so the
node asks them for the damaged range and puts it back in place. Only where that is impossible, the
replica is taken out of service and fetched again as a whole. Before that, another replica in sync
must have said that it lives and that its log is whole: what the image says of it may be seconds
old, and it may be dead. A replica that is damaged itself does not say so (`refuse_proof`), so that
two that find damage at the same time do not both step back for each other.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import PartitionState
from highwater.model.ids import NO_NODE
from highwater.partition.core.isr import NO_ATTEMPT, IsrState
from highwater.partition.core.replica import Replica
from highwater.partition.core.transitions import Role


class Outcome(enum.Enum):
    """How one replica answered when it was asked for a damaged range."""

    WHOLE = "whole"
    """Its bytes fit in the place of the damaged ones."""
    DIFFERS = "differs"
    """It lives, is in sync and can read the range, but its bytes do not fit here."""
    DAMAGED = "damaged"
    """It has lost these records, too, or others if it was asked whether it is whole."""
    UNWILLING = "unwilling"
    """It lives, but is not in sync or in another leader epoch, as far as it knows."""
    SILENT = "silent"
    """No answer came in time."""


class Verdict(enum.Enum):
    """What the node does about a damaged range."""

    HEALED = "healed"
    REPLACE = "replace"
    """The replica cannot be healed in place, so it is fetched again as a whole."""
    RETRY = "retry"
    """Nothing is known for certain; ask again soon."""
    KEEP = "keep"
    """No replica that can be asked has the records: serve what is not damaged, ask again later."""


_DAMAGED: Final = frozenset({ErrorCode.CORRUPT_MESSAGE})


def sources(state: PartitionState, node: int, ineligible: frozenset[int]) -> tuple[int, ...]:
    """The replicas in sync to ask, in order: the leader first. Fenced ones have left the ISR, or
    are about to.
    """
    others = [n for n in state.replicas if n in state.isr and n != node and n not in ineligible]
    return tuple(sorted(others, key=lambda n: n != state.leader))


def outcome_of_refusal(error_code: int) -> Outcome:
    """What a replica's error code means; OFFSET_OUT_OF_RANGE, for example, proves nothing."""
    return Outcome.DAMAGED if error_code in _DAMAGED else Outcome.UNWILLING


def verdict(outcomes: Mapping[int, Outcome]) -> Verdict:
    """What follows from all answers about one range."""
    found = set(outcomes.values())
    if Outcome.WHOLE in found:
        return Verdict.HEALED
    if Outcome.DIFFERS in found:
        return Verdict.REPLACE
    if Outcome.SILENT in found or Outcome.UNWILLING in found:
        return Verdict.RETRY
    return Verdict.KEEP


def proven(outcomes: Mapping[int, Outcome]) -> frozenset[int]:
    """The replicas that have shown since the damage was found that they live, are in sync and can
    read what was asked for: what is damaged here, or everything.
    """
    able = (Outcome.WHOLE, Outcome.DIFFERS)
    return frozenset(node for node, outcome in outcomes.items() if outcome in able)


def refuse_range(replica: Replica, leader_epoch: int) -> int:
    """Kafka's error code for a replica that cannot vouch for records in this epoch; 0 if it can."""
    if replica.role not in (Role.LEADER, Role.FOLLOWER):
        return ErrorCode.KAFKA_STORAGE_ERROR
    if leader_epoch != replica.leader_epoch:
        older = leader_epoch < replica.leader_epoch
        return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
    if replica.node not in replica.isr.committed or replica.truncating:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return 0


def refuse_proof(replica: Replica, leader_epoch: int, *, whole: bool) -> int:
    """The same for one that is to prove that another may step back for it.

    With `whole`, no damage of its own log is known. Whoever steps back for a damaged replica leaves
    the partition to a log that lacks records; and that one may be about to step back, too.
    """
    return refuse_range(replica, leader_epoch) or (0 if whole else ErrorCode.CORRUPT_MESSAGE)


def may_step_back(isr: IsrState, node: int, alive: Iterable[int]) -> bool:
    """Whether a damaged replica may leave its partition to the other replicas.

    One of `alive`, which have proven that they live and are whole, must certainly be in the ISR.
    While a proposal of this leader is under way that is not certain: the controller may have
    removed that replica.
    """
    settled = isr.pending == NO_ATTEMPT and not isr.doubtful and not isr.outdated
    return settled and any(peer != node and peer in isr.committed for peer in alive)


def counts_no_more(state: PartitionState, node: int) -> bool:
    """Whether another replica leads, and this one is neither in the ISR nor an eligible leader."""
    led = state.leader not in (NO_NODE, node)
    return led and node not in state.isr and node not in state.eligible_leaders


def nobody_took_over(state: PartitionState, leader_epoch: int) -> bool:
    """Whether the partition has had no leader since a replica stepped back in `leader_epoch`.

    Then the replica goes on with the log that it has.
    """
    return state.leader == NO_NODE and state.leader_epoch > leader_epoch


def newly_lost(lost: Iterable[tuple[int, int]], known: Sequence[tuple[int, int]]) -> bool:
    """Whether a range of `lost` is new. What a truncation or a repair has left of a known one is
    not.
    """
    return not all(any(a <= first and end <= b for a, b in known) for first, end in lost)


def damaged_parts(
    lost: Iterable[tuple[int, int]], start: int, bases: Sequence[int], end: int
) -> list[tuple[int, int, int]]:
    """(segment's base offset, first, end) of damaged offsets from `start` on, in log order.

    `bases` are the segments' base offsets, `end` is the log's end. A range that goes over several
    segments is one part in each.
    """
    parts: set[tuple[int, int, int]] = set()
    for number, base in enumerate(bases):
        following = bases[number + 1] if number + 1 < len(bases) else end
        for first, stop in lost:
            begin, limit = max(first, base, start), min(stop, following)
            if begin < limit:
                parts.add((base, begin, limit))
    return sorted(parts)
