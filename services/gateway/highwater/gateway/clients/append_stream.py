"""The Append stream of one node: coalescing, order, and what a break means (decision 14).

Messages go out at once while fewer than two are unacknowledged, else batches gather. When the
stream breaks, messages under way are sent again if every batch in them is idempotent, in their
order and before all later ones; other batches are answered UNKNOWN, which clients see as
REQUEST_TIMED_OUT. Groups that were never sent simply wait for the next connection.
"""

from collections.abc import Callable
from typing import Any, Final

import grpc.aio

from highwater.gateway.clients.stream import Stream
from highwater.hop.append import OUTCOME_UNKNOWN, AppendGatherer, AppendGroup, Failure
from highwater.hop.append_codec import (
    apply_result,
    decode_response,
    encode_request,
    split_messages,
)
from highwater.hop.framing import HopFramingError
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.records.batch import PRODUCER_ID_AT
from highwater.model.time import Clock

METHOD: Final = "/highwater.api.partition.v1.PartitionService/Append"
OUTSTANDING_MAX: Final = 2
"""Unacknowledged messages; measured, more gain nothing and delay coalescing."""


class AppendStream:
    """See the module. `gatherer.append` is the way in."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        *,
        clock: Clock,
        schedule: Callable[[Callable[[], None]], object],
    ) -> None:
        self.gatherer = AppendGatherer(schedule, self._gathered)
        self.stream = Stream(
            channel,
            METHOD,
            next_message=self._next_message,
            received=self._received,
            opened=self._opened,
            broken=self._broken,
        )
        self._clock = clock
        self._ready: list[list[AppendGroup]] = []
        """Messages' worth of groups, not yet written."""
        self._sent: dict[int, list[AppendGroup | None]] = {}
        """Groups by message id; None where the result is in."""
        self._unacknowledged: set[int] = set()
        self._last_id = 0
        self.gatherer.hold()

    @property
    def idle(self) -> bool:
        """True if no group waits for anything."""
        return not self._sent and not self._ready

    def _gathered(self, groups: list[AppendGroup]) -> None:
        self._ready.extend(split_messages(groups))
        self._hold_or_release()
        self.stream.wake()

    def _hold_or_release(self) -> None:
        """Lets batches gather while messages are outstanding."""
        if not self.stream.is_open or len(self._unacknowledged) >= OUTSTANDING_MAX or self._ready:
            self.gatherer.hold()
        else:
            self.gatherer.release()

    def _next_message(self) -> bytes | None:
        if not self._ready or len(self._unacknowledged) >= OUTSTANDING_MAX:
            return None
        groups = self._ready.pop(0)
        self._last_id += 1
        message = encode_request(self._last_id, groups, self._clock.monotonic_ms())
        self._sent[self._last_id] = list(groups)
        self._unacknowledged.add(self._last_id)
        self._hold_or_release()
        return message

    def _received(self, message: bytes) -> None:
        response = decode_response(message)
        for result in response.results:
            groups = self._sent.get(result.message_id, [])
            group = groups[result.group] if result.group < len(groups) else None
            if group is None:
                raise HopFramingError(f"no group {result.group} in message {result.message_id}")
            apply_result(result, group)
            groups[result.group] = None
            if not any(groups):
                del self._sent[result.message_id]
        self._unacknowledged.difference_update(response.appended_message_ids)
        self._hold_or_release()
        self.stream.wake()

    def _opened(self) -> None:
        self._hold_or_release()

    def _broken(self, reason: str) -> None:
        self.gatherer.hold()
        again: list[list[AppendGroup]] = []
        for message_id in sorted(self._sent):
            groups = [g for g in self._sent[message_id] if g is not None]
            keep = [g for g in groups if _all_idempotent(g)]
            for group in groups:
                if not _all_idempotent(group):
                    group.fail(unknown(reason))
            if keep:
                again.append(keep)
        self._sent.clear()
        self._unacknowledged.clear()
        self._ready[:0] = again

    def expire(self, now_ms: int) -> None:
        """Fails groups whose deadline has passed while the node is away."""
        if self.stream.is_open:
            return
        waiting = self._ready
        self._ready = []
        for groups in [*waiting, *split_messages(self.gatherer.take())]:
            keep = [g for g in groups if g.deadline_ms > now_ms]
            for group in groups:
                if group.deadline_ms <= now_ms:
                    group.fail(unknown("the partition node cannot be reached"))
            if keep:
                self._ready.append(keep)

    def fail_all(self, failure: Callable[[], Failure]) -> None:
        """Ends everything that waits, sent or not; for shutdown and removed nodes."""
        groups = [g for sent in self._sent.values() for g in sent if g is not None]
        groups += [g for ready in self._ready for g in ready]
        groups += self.gatherer.take()
        self._sent.clear()
        self._ready.clear()
        self._unacknowledged.clear()
        for group in groups:
            group.fail(failure())


def unknown(reason: str) -> Failure:
    """The failure for batches of which nobody knows whether they are in the log."""
    return Failure(ErrorCode.REQUEST_TIMED_OUT, reason, outcome=OUTCOME_UNKNOWN)


def _all_idempotent(group: AppendGroup) -> bool:
    """True if every batch carries a producer id, so that sending it again cannot duplicate."""
    return all(_is_idempotent(batch) for batch in group.batches)


def _is_idempotent(batch: Any) -> bool:
    # The sign bit of the producer id: -1 means none. A cut batch counts as not idempotent.
    return len(batch) > PRODUCER_ID_AT and batch[PRODUCER_ID_AT] < 0x80
