"""The Append stream of one node: it coalesces batches and keeps their order (decision 14).

Messages go out at once while few are unacknowledged; otherwise batches gather. When the stream
breaks, the idempotent batches in flight are sent again, in order and before all later ones;
other batches are answered UNKNOWN, which clients see as REQUEST_TIMED_OUT. Groups that were never
sent wait for the next connection. So do groups that the node says, when it stops, that it has not
read.

While a partition's leader moves, its groups can be counted (`under_way`) and taken back
(`recall`), to be sent to the new leader.

A node may hang with its stream open, so deadlines hold in every state (`expire`): the client is
answered, and a group on the wire keeps its place until its result comes or the stream ends.
"""

from collections.abc import Callable, Iterator
from typing import Final

from highwater.hop.append import (
    NO_BATCH,
    AppendGatherer,
    AppendGroup,
    AppendOwner,
    Failure,
)
from highwater.hop.append_codec import (
    apply_result,
    decode_response,
    encode_request,
    split_messages,
)
from highwater.hop.append_expiry import (
    ANSWERED,
    NEVER_MS,
    AppendExpiry,
    answer_others,
    any_idempotent,
    drop_answered,
    not_sent,
    unknown,
)
from highwater.hop.framing import HopFramingError, Parts
from highwater.hop.settings import HopTransport
from highwater.hop.stream import Stream
from highwater.hop.transport import path_of
from highwater.kafka.error_codes import ErrorCode
from highwater.model.time import Clock
from highwater.rpc.ports import Message, StreamChannel

OUTSTANDING_MAX: Final = {HopTransport.GRPCIO: 2, HopTransport.LOOP: 4}
"""Unacknowledged messages. Over grpcio more gain no throughput, and less is coalesced. A message over
the loop's own sockets takes a fifth of the time: with two, a busy node waits for the next one."""


class AppendStream:
    """See the module. `gatherer.append` is the way in."""

    def __init__(
        self,
        channel: StreamChannel,
        *,
        clock: Clock,
        schedule: Callable[[Callable[[], None]], object],
        on_bug: Callable[[Exception], None],
        on_encode_failure: Callable[[Exception], None] = lambda _error: None,
        owner: AppendOwner | None = None,
        outstanding_max: int = OUTSTANDING_MAX[HopTransport.LOOP],
    ) -> None:
        """`on_encode_failure` gets the error of a group that no message can carry, which is a bug.

        `on_bug` gets other bugs, see `Stream`. `owner` is that of the groups that are made
        here.
        """
        self.gatherer = AppendGatherer(schedule, self._gathered, owner)
        self.stream = Stream(
            channel,
            path_of("Append"),
            next_message=self._next_message,
            received=self._received,
            opened=self._opened,
            broken=self._broken,
            on_bug=on_bug,
        )
        self._clock = clock
        self._outstanding_max = outstanding_max
        self._on_encode_failure = on_encode_failure
        self._ready: list[list[AppendGroup]] = []
        """Lists of groups, each to be sent as one message."""
        self._sent: dict[int, list[AppendGroup | None]] = {}
        """Groups by message id; None in place of a group whose result has come."""
        self._unacknowledged: set[int] = set()
        self._schedule = schedule
        self._releasing = False
        self._node_stops = False
        """True if the node has said that it reads no more, after acknowledging what it read."""
        self._last_id = 0
        self.groups_sent = 0
        """Groups that were written, again ones included."""
        self.gatherer.hold()

    @property
    def idle(self) -> bool:
        """True if no group waits for anything."""
        return not self._sent and not self._ready

    def _gathered(self, groups: list[AppendGroup]) -> None:
        self._ready.extend(split_messages(groups))
        self._hold_or_release()
        self.stream.write()  # They have gathered for this turn already.

    def _hold_or_release(self) -> None:
        """Lets batches gather while messages are outstanding."""
        busy = len(self._unacknowledged) >= self._outstanding_max or self._ready
        if not self.stream.is_open or self._node_stops or busy:
            self.gatherer.hold()
        else:
            self.gatherer.release()

    def _next_message(self) -> Parts | None:
        if self._node_stops:
            return None
        while self._ready and len(self._unacknowledged) < self._outstanding_max:
            groups = self._ready.pop(0)
            message_id = self._last_id + 1
            try:
                message = encode_request(message_id, groups, self._clock.monotonic_ms())
            except Exception as error:  # noqa: BLE001 - only this group's failure.
                self._not_encoded(groups, error)
                continue
            self._last_id = message_id
            for group in groups:
                group.attempted = True
            self.groups_sent += len(groups)
            self._sent[message_id] = list(groups)
            self._unacknowledged.add(message_id)
            self._hold_or_release()
            return message
        return None

    def _not_encoded(self, groups: list[AppendGroup], error: Exception) -> None:
        """Encodes each group by itself, and fails those that cannot be encoded."""
        if len(groups) > 1:
            self._ready[:0] = [[group] for group in groups]
            return
        self._on_encode_failure(error)
        (group,) = groups
        if group.attempted:
            group.fail(unknown("the batch cannot be sent again"))
        else:
            group.fail(Failure(ErrorCode.UNKNOWN_SERVER_ERROR, "the batch cannot be sent on"))
        self._hold_or_release()

    def _received(self, message: Message) -> None:
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
        if response.ending:
            self._node_stops = True
            self.stream.end_writing()
        if not self._releasing:
            # Later, so that batches which this turn of the loop still reads go in the same message.
            self._releasing = True
            self._schedule(self._release)

    def _release(self) -> None:
        self._releasing = False
        self._hold_or_release()
        self.stream.write()

    def _opened(self) -> None:
        self._node_stops = False
        self._hold_or_release()

    def _broken(self, reason: str) -> None:
        self.gatherer.hold()
        again: list[list[AppendGroup]] = []
        for message_id in sorted(self._sent):
            unread = self._node_stops and message_id in self._unacknowledged
            keep = [
                group
                for group in self._sent[message_id]
                if group is not None and goes_again(group, reason, unread=unread)
            ]
            if keep:
                again.append(keep)
        self._sent.clear()
        self._unacknowledged.clear()
        self._ready[:0] = again

    def end(self, reason: str) -> None:
        """Ends the stream for good; all groups are failed before this returns."""
        self.stream.end(reason)
        self.fail_all(reason)

    def expire(self, now_ms: int) -> None:
        """Answers batches whose deadline has passed; called a few times a second."""
        expiry = AppendExpiry(now_ms, "the partition node did not answer in time")
        for sent in self._sent.values():
            for group in sent:
                if group is not None:
                    expiry.answer_sent(group)
        for groups in self._ready:
            for group in groups:
                expiry.take_unsent(group)
        self._ready = [kept for groups in self._ready if (kept := [g for g in groups if g.batches])]
        self.gatherer.prune(expiry.take_unsent)
        expiry.tell()
        self._hold_or_release()

    def under_way(self) -> Iterator[AppendGroup]:
        """Groups without a result, in the order of their partitions' batches."""
        for sent in self._sent.values():
            for group in sent:
                if group is not None and not group.completed:
                    yield group
        for ready in self._ready:
            for group in ready:
                if not group.completed:
                    yield group
        yield from self.gatherer.groups

    def recall(self, wanted: Callable[[AppendGroup], bool]) -> list[AppendGroup]:
        """Takes the wanted groups back and returns them, in order.

        The node may still append groups that are on the wire; their results are ignored.
        """
        recalled = []
        for sent in self._sent.values():
            for place, group in enumerate(sent):
                if group is not None and not group.completed and wanted(group):
                    recalled.append(group)
                    sent[place] = _stand_in(group)
        kept: list[list[AppendGroup]] = []
        for ready in self._ready:
            recalled += [group for group in ready if wanted(group)]
            if left := [group for group in ready if not wanted(group)]:
                kept.append(left)
        self._ready = kept
        recalled += self.gatherer.recall(wanted)
        self._hold_or_release()
        return recalled

    def fail_all(self, reason: str) -> None:
        """Fails all groups, sent or not; for shutdown and removed nodes."""
        groups = [g for sent in self._sent.values() for g in sent if g is not None]
        groups += [g for ready in self._ready for g in ready]
        groups += self.gatherer.take()
        self._sent.clear()
        self._ready.clear()
        self._unacknowledged.clear()
        for group in groups:
            group.fail(unknown(reason) if group.attempted else not_sent(reason))


def goes_again(group: AppendGroup, reason: str, *, unread: bool) -> bool:
    """Whether a group of a broken stream waits for the next stream; if not, it is failed here.

    `unread`: the node has not read the group and never will. Otherwise a later refusal, even by
    the same node, is about the second attempt only: the first may be in the log.
    """
    if any_idempotent(group):
        if unread:
            drop_answered(group)
        else:
            group.doubtful = True
            answer_others(group, unknown(reason))
        return True
    if unread and group.deadline_ms < NEVER_MS:
        drop_answered(group)
        group.attempted = False  # This was its only attempt: such groups are not sent twice.
        return True
    group.fail(unknown(reason))
    return False


def _stand_in(group: AppendGroup) -> AppendGroup:
    """Takes the result of a group that was recalled, and tells nobody: it has no owner, and nobody
    waits for its batches. Not sent again if the stream breaks.
    """
    made = AppendGroup(
        group.topic_id, group.partition, group.leader_epoch, group.acks, group.instance
    )
    count = len(group.batches)
    made.batches = [NO_BATCH] * count
    made.sinks = [ANSWERED] * count
    made.indexes = list(group.indexes)
    made.deadline_ms = NEVER_MS
    made.completed = True
    return made
