"""Whose records heal a damaged replica, and what follows from what the others answered (R13).

Damage is found in one replica. The others in sync have the same bytes at the same offsets, so the
damaged range is asked of them and put back in place. Only where that is impossible the replica is
taken out of service and fetched again as a whole, and only after another replica in sync has
answered since: what the image says of it may be seconds old, and it may be dead.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import PartitionState
from highwater.model.ids import NO_NODE
from highwater.partition.core.isr import NO_ATTEMPT, IsrState


class Outcome(enum.Enum):
    """What came of asking one replica for a damaged range."""

    WHOLE = "whole"
    """Its bytes fit in the place of the damaged ones."""
    DIFFERS = "differs"
    """It lives, is in sync and can read the range, but its bytes do not fit here."""
    DAMAGED = "damaged"
    """It has lost these records, too."""
    UNWILLING = "unwilling"
    """It lives, but is not in sync or in another leader epoch, as far as it knows."""
    SILENT = "silent"
    """No answer came in time."""


class Verdict(enum.Enum):
    """What is to be done about a damaged range."""

    HEALED = "healed"
    REPLACE = "replace"
    """The replica cannot be healed in place: it is to be fetched again as a whole."""
    RETRY = "retry"
    """Nothing is known for certain; ask again soon."""
    KEEP = "keep"
    """Nobody who can be asked has the records: go on with what is sound, ask again later."""


_DAMAGED: Final = frozenset({ErrorCode.CORRUPT_MESSAGE})


def sources(state: PartitionState, node: int, ineligible: frozenset[int]) -> tuple[int, ...]:
    """The replicas in sync to ask, in order: the leader first. Fenced ones have left the ISR, or
    are about to.
    """
    others = [n for n in state.replicas if n in state.isr and n != node and n not in ineligible]
    return tuple(sorted(others, key=lambda n: n != state.leader))


def outcome_of_refusal(error_code: int) -> Outcome:
    """What a replica's error code says; OFFSET_OUT_OF_RANGE, for one, is no proof of anything."""
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
    read what is damaged here.
    """
    able = (Outcome.WHOLE, Outcome.DIFFERS)
    return frozenset(node for node, outcome in outcomes.items() if outcome in able)


def may_step_back(isr: IsrState, node: int, alive: Iterable[int]) -> bool:
    """Whether a replica may leave its partition to others for its damage.

    One of `alive`, which have proven it, has to be in the ISR whatever the controller has made of
    this leader's last proposal: with one under way somebody may be out of it already.
    """
    settled = isr.pending == NO_ATTEMPT and not isr.doubtful and not isr.outdated
    return settled and any(peer != node and peer in isr.committed for peer in alive)


def counts_no_more(state: PartitionState, node: int) -> bool:
    """Whether another replica leads, and nobody relies on this one for what is committed."""
    led = state.leader not in (NO_NODE, node)
    return led and node not in state.isr and node not in state.eligible_leaders


def nobody_took_over(state: PartitionState, leader_epoch: int) -> bool:
    """Whether the partition has no leader since a replica stepped back in `leader_epoch`.

    Then stepping back was in vain: the replica goes on with the log that it has.
    """
    return state.leader == NO_NODE and state.leader_epoch > leader_epoch


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
