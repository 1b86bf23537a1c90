"""The ISR as its leader knows it: the committed one, and the maximal one (KIP-497).

A proposal that nobody answered may have been committed, or may be yet, as long as the partition
epoch that it names is the present one. Its members therefore stay in the maximal ISR until the
epoch moves. Kafka forgets an earlier attempt when a later one is refused, which is only safe if a
request can never overtake another.
"""

from collections.abc import Iterable
from typing import Final

from highwater.kafka.error_codes import ErrorCode

NO_ATTEMPT = -1

OUTDATED_CODES: Final = frozenset({
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
})  # fmt: skip
"""Refusals of AlterPartition after which only a newer image can help."""

REFUSED_CODES: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
"""Refusals of a proposal that was looked at; after any other code its outcome is not known."""


class IsrState:
    """One term of leadership. `pending` is the attempt under way, -1 if there is none."""

    __slots__ = (
        "_proposed",
        "_unanswered",
        "attempts",
        "committed",
        "maximal",
        "outdated",
        "partition_epoch",
        "pending",
    )

    def __init__(self, attempts: int = 0) -> None:
        """`attempts`: made in earlier terms, whose late answers must not fit a new attempt."""
        self.attempts = attempts
        self._proposed: tuple[int, ...] = ()
        self._unanswered: frozenset[int] = frozenset()
        self.committed: tuple[int, ...] = ()
        self.maximal: frozenset[int] = frozenset()
        self.partition_epoch = -1
        self.pending = NO_ATTEMPT
        self.outdated = False
        """The controller has a newer state; the leader proposes nothing until that arrives."""

    @property
    def doubtful(self) -> bool:
        """True if an unanswered proposal may be committed yet, so that a new one has to settle."""
        return bool(self._unanswered)

    @property
    def may_propose(self) -> bool:
        """True if no attempt is under way and the present state is known."""
        return self.pending == NO_ATTEMPT and not self.outdated

    def commit(self, partition_epoch: int, isr: Iterable[int]) -> bool:
        """Takes over what the controller committed; False if the leader knew it already."""
        if partition_epoch <= self.partition_epoch:
            return False
        self.partition_epoch = partition_epoch
        self.committed = tuple(isr)
        self.pending = NO_ATTEMPT
        self.outdated = False
        self._proposed = ()
        self._unanswered = frozenset()
        self._set_maximal()
        return True

    def propose(self, isr: tuple[int, ...]) -> int:
        """Begins an attempt and returns its number; from now on the high watermark waits."""
        assert self.may_propose
        self.attempts += 1
        self.pending = self.attempts
        self._proposed = isr
        self._set_maximal()
        return self.pending

    def refused(self, attempt: int, *, outdated: bool) -> None:
        """The attempt will never be committed. `outdated`: because its epochs are."""
        if attempt != self.pending:
            return
        self.pending = NO_ATTEMPT
        self._proposed = ()
        self.outdated = outdated
        self._set_maximal()

    def is_next(self, partition_epoch: int) -> bool:
        """True if the committed state directly follows the one that this leader knew.

        Otherwise min.insync.replicas may have changed, which only an image tells; with the old
        minimum the high watermark could pass what eligible leaders have.
        """
        return partition_epoch == self.partition_epoch + 1

    def answered(self, attempt: int, error_code: int) -> bool:
        """The attempt's answer, if that is not the next state; True if its members were refused.

        A success of a state that is not newer is the echo of an attempt that the image has
        overtaken; errors other than refusals leave open whether the attempt was carried out.
        """
        if error_code in OUTDATED_CODES:
            self.refused(attempt, outdated=True)
        elif error_code in REFUSED_CODES:
            self.refused(attempt, outdated=False)
            return True
        else:
            self.unanswered(attempt)
        return False

    def unanswered(self, attempt: int) -> None:
        """The attempt may or may not have been committed, or may be yet."""
        if attempt != self.pending:
            return
        self._unanswered |= frozenset(self._proposed)
        self.pending = NO_ATTEMPT
        self._proposed = ()

    def _set_maximal(self) -> None:
        self.maximal = self._unanswered.union(self.committed, self._proposed)
