"""What a decision returns: a change to commit and, for each item asked for, a Kafka error."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterDelta
from highwater.model.ids import LeaderEpoch, NodeId

R = TypeVar("R")

PENDING_REVISION = -1
"""The revision of a delta, and the epoch of a node in it, that the commit will fill in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why one item was refused, in Kafka's terms and with a sentence for people."""

    code: ErrorCode
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElection:
    """A leader that is not known to hold everything that was committed."""

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
    """The new end of what is handed out, None if that does not change."""
    unclean: tuple[UncleanElection, ...] = ()
    """Elections in it that may have lost records."""


def unchanged(result: R) -> Decision[R]:
    """A decision that changes nothing."""
    return Decision(delta=None, result=result)
