"""Appends of a gateway to the node in its process, where other nodes may lead instead of this one.

The data plane gets a carrier in place of each group: it has the same batches, and this class owns it.
So a group can be taken back from a node that is fenced or hangs (`recall`), as from a stream; the
carrier's result is then ignored.

The log stamps batches in place, in the client's own bytes. What may be sent to another leader after
that gets a copy first: a LogAppendTime would be refused there, and the writer thread may still read
these bytes. Groups leave once per turn, and no number of them is too many: they
are answered in the same turn, or wait where the plane limits them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from highwater.hop.append import (
    OUTCOME_UNKNOWN,
    AppendGatherer,
    AppendGroup,
    AppendOwner,
    Failure,
)
from highwater.hop.append_expiry import AppendExpiry, not_sent, unknown
from highwater.kafka.records.batch import without_log_append_time

LATE: Final = "the partition node did not answer in time"


class LocalAppends:
    """See the module. `gatherer.append` is the way in."""

    def __init__(
        self,
        append: Callable[[Iterable[AppendGroup]], None],
        *,
        schedule: Callable[[Callable[[], None]], object],
        owner: AppendOwner | None = None,
    ) -> None:
        """`append` is the data plane's; `owner` is that of the groups that are made here."""
        self.gatherer = AppendGatherer(schedule, self._send, owner)
        self._append = append
        self._schedule = schedule
        self._sent: dict[AppendGroup, AppendGroup] = {}
        """Groups in the plane by their carriers, in the order in which they were sent."""

    def _send(self, groups: list[AppendGroup]) -> None:
        carriers: list[AppendGroup] = []
        sent = self._sent
        for group in groups:
            carrier = AppendGroup(
                group.topic_id,
                group.partition,
                group.leader_epoch,
                group.acks,
                group.instance,
                self,
            )
            carrier.batches = group.batches
            carrier.nbytes = group.nbytes
            carrier.deadline_ms = group.deadline_ms
            carrier.later_deadlines = group.later_deadlines
            carrier.transaction = group.transaction
            group.attempted = True
            sent[carrier] = group
            carriers.append(carrier)
        # All are under way before the first is answered, like the groups of one message.
        self._append(carriers)

    def take_result(
        self,
        carrier: AppendGroup,
        base_offsets: list[int],
        failures: Mapping[int, Failure] | None,
    ) -> bool:
        """See `AppendOwner`."""
        group = self._sent.pop(carrier, None)
        if group is None:
            return True  # It was recalled.
        group.log_start_offset = carrier.log_start_offset
        group.log_append_time_ms = carrier.log_append_time_ms
        group.throttle_ms = carrier.throttle_ms
        group.known_timestamps = carrier.known_timestamps
        if failures is not None and any(f.outcome == OUTCOME_UNKNOWN for f in failures.values()):
            _detach(group)
        try:
            group.complete(base_offsets, failures)
        except Exception as error:  # noqa: BLE001 - the gateway's bug, not the partition's.
            self._schedule(partial(_throw, error))
        return True

    def under_way(self) -> Iterator[AppendGroup]:
        """Groups without a result, in the order of their partitions' batches."""
        yield from self._sent.values()
        yield from self.gatherer.groups

    def recall(self, wanted: Callable[[AppendGroup], bool]) -> list[AppendGroup]:
        """Takes the wanted groups back and returns them, in order.

        The plane may still append those that it has; their results are ignored.
        """
        carriers = [carrier for carrier, group in self._sent.items() if wanted(group)]
        recalled = [self._sent.pop(carrier) for carrier in carriers]
        for group in recalled:
            _detach(group)
        return recalled + self.gatherer.recall(wanted)

    def expire(self, now_ms: int) -> None:
        """Answers batches whose deadline has passed; called a few times a second.

        What is gathered leaves within its turn, so it cannot be late.
        """
        expiry = AppendExpiry(now_ms, LATE)
        for group in self._sent.values():
            expiry.answer_sent(group)
        expiry.tell()

    def fail_all(self, reason: str) -> None:
        """Fails all groups, sent or not; for the end."""
        groups = [*self._sent.values(), *self.gatherer.take()]
        self._sent.clear()
        for group in groups:
            group.fail(unknown(reason) if group.attempted else not_sent(reason))


def _detach(group: AppendGroup) -> None:
    """Gives the group batches of its own, as its clients sent them."""
    group.batches = [without_log_append_time(batch) for batch in group.batches]


def _throw(error: Exception) -> None:
    raise error
