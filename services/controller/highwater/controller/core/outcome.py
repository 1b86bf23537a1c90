"""The result of a decision: a change to commit and, for each requested item, a Kafka error."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterDelta, NodeState, PartitionState
from highwater.model.ids import LeaderEpoch, NodeId, TopicId

R = TypeVar("R")

Changes = dict[TopicId, dict[int, PartitionState]]
"""Changed partitions of existing topics, by number."""

PENDING_REVISION = -1
"""The revision of a delta, and the epoch of a node in it, that the commit will fill in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why one item was refused, in Kafka's terms and with a sentence for people."""

    code: ErrorCode
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElection:
    """The election of a leader that may lack committed records."""

    topic: str
    partition: int
    leader: NodeId
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[R]):
    """A decision against one image. `delta` None changes nothing; its revision is pending."""

    delta: ClusterDelta | None
    result: R
    next_producer_id: int | None = None
    """The first producer id not yet allocated, None if that does not change."""
    unclean: tuple[UncleanElection, ...] = ()
    """Elections in this decision that may have lost records."""


def delta_of(changed: Changes, nodes: Iterable[NodeState] = ()) -> ClusterDelta | None:
    """Changed nodes and partitions as a delta; None if there are neither."""
    partitions = {t: tuple(states.values()) for t, states in changed.items() if states}
    different = tuple(nodes)
    if not partitions and not different:
        return None
    return ClusterDelta(revision=PENDING_REVISION, nodes=different, partitions=partitions)


def unchanged(result: R) -> Decision[R]:
    """A decision that changes nothing."""
    return Decision(delta=None, result=result)
