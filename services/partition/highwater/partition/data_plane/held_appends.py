"""Appends of instances that are over their produce limit: each waits before it is appended, in order.

To append first and to let the client wait afterwards, as Kafka does, bounds a connection, but not an
instance: each of its connections may send a request before it hears of any wait. So the meter is asked
before (tokens, see `TokenBucket`), and whatever may not pass waits here, in one queue for each instance. In
W seconds at a share L at most L * W and a burst, or one group, are appended, by however many connections.

    a group comes                              it
    the meter lets it pass, nobody waits       is appended
    there is room in the queue                 waits
    there is none                              is refused
    it is the first one and the meter lets it  is appended
    it has waited too long, or its deadline    is refused, and with it what its idempotent producers
    has come                                   sent later: that may not be in a log without it

What is refused is in no log. Clients are answered REQUEST_TIMED_OUT, which all of them repeat, and are
muted as those whose groups were appended; so a busy client's next request comes when it may pass.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from highwater.hop.append import AppendGroup, Failure
from highwater.hop.append_expiry import is_idempotent, producer_of
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId
from highwater.model.time import CallLater, Timer

HELD_MS_MAX: Final = 10_000
"""The longest wait. A client that does not heed the time that it is told is muted for 5 s before, and the
usual time limit of a request is 30 s."""
INSTANCE_BYTES_MAX: Final = 32 << 20
"""Of one instance at one node. A gateway keeps them too; it has room for 256 MiB of all instances."""
NODE_BYTES_MAX: Final = 128 << 20
"""Of all instances. One group of an instance may always wait."""
GROUPS_MAX: Final = 4096
"""Of one instance: what a refusal looks through."""
PAUSE_MS_MIN: Final = 10
"""Between two looks at a queue; a bucket holds ten times as much."""


class ProduceMeter(Protocol):
    """What meters one instance, see `quota.meter`; times are in ms."""

    held_bytes: int
    """Bytes that wait here."""
    on_share: Callable[[], None] | None
    """Called when the instance's share has changed."""

    def now_ms(self) -> int:
        """On the clock of deadlines."""
        ...

    def refuses_produce(self) -> str:
        """Why nothing may be appended, for the client; empty if it may."""
        ...

    def produce_hold_ms(self, nbytes: int) -> int:
        """More than 0 while so many bytes may not be appended."""
        ...

    def produced(self, nbytes: int) -> int:
        """Charges bytes that are appended; returns for how long their sender is over the limit."""
        ...

    def refused(self, nbytes: int) -> int:
        """Notes bytes that are not appended; returns as `produced`."""
        ...


class _Queue:
    """The groups of one instance, and when they came; never empty."""

    __slots__ = ("groups", "meter", "timer")

    def __init__(self, meter: ProduceMeter) -> None:
        self.meter = meter
        self.groups: deque[tuple[AppendGroup, int]] = deque()
        self.timer: Timer | None = None


class HeldAppends:
    """See the module. Of one node, on its loop; the node's end is `end`."""

    def __init__(
        self,
        call_later: CallLater,
        append: Callable[[AppendGroup], None],
        refuse: Callable[[AppendGroup, Failure], None],
    ) -> None:
        """`append` and `refuse` each complete a group, or see to it."""
        self._call_later = call_later
        self._append = append
        self._refuse = refuse
        self._queues: dict[InstanceId, _Queue] = {}
        self._held_bytes = 0
        self._ended = False

    def append(self, meter: ProduceMeter, group: AppendGroup) -> None:
        """Appends, holds or refuses a group of a limited instance."""
        queue = self._queues.get(group.instance)
        if self._ended:
            self._append(group)  # Replicas say who leads now.
        elif why := meter.refuses_produce():
            self._refuse(group, Failure(ErrorCode.POLICY_VIOLATION, why))
        elif queue is None and not meter.produce_hold_ms(group.nbytes):
            group.throttle_ms = meter.produced(group.nbytes)
            self._append(group)
        elif queue is None:
            self._begin(meter, group)
        elif (
            len(queue.groups) < GROUPS_MAX
            and meter.held_bytes + group.nbytes <= INSTANCE_BYTES_MAX
            and self._held_bytes + group.nbytes <= NODE_BYTES_MAX
        ):
            self._add(queue, group)
        else:
            self._refuse_for_now(meter, group)

    def end(self) -> None:
        """Refuses whatever waits, and holds nothing more: the node has handed over and stops."""
        self._ended = True
        failure = Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the node stops")
        queues, self._queues = self._queues, {}
        for queue in queues.values():
            self._end(queue)
            for group, _ in queue.groups:
                self._count(queue.meter, -group.nbytes)
                self._refuse(group, failure)

    def _begin(self, meter: ProduceMeter, group: AppendGroup) -> None:
        queue = self._queues[group.instance] = _Queue(meter)
        meter.on_share = lambda: self._go_on(group.instance)
        self._add(queue, group)
        self._go_on(group.instance)

    def _end(self, queue: _Queue) -> None:
        queue.meter.on_share = None
        if queue.timer is not None:
            queue.timer.cancel()

    def _add(self, queue: _Queue, group: AppendGroup) -> None:
        queue.groups.append((group, queue.meter.now_ms()))
        self._count(queue.meter, group.nbytes)

    def _take(self, queue: _Queue) -> AppendGroup:
        group, _ = queue.groups.popleft()
        self._count(queue.meter, -group.nbytes)
        return group

    def _count(self, meter: ProduceMeter, nbytes: int) -> None:
        meter.held_bytes += nbytes
        self._held_bytes += nbytes

    def _go_on(self, instance: InstanceId) -> None:
        """Appends what may pass, and looks again when the next one may."""
        queue = self._queues[instance]
        meter, groups = queue.meter, queue.groups
        while groups:
            group, since_ms = groups[0]
            left_ms = since_ms + HELD_MS_MAX - meter.now_ms()
            if group.deadline_ms:
                left_ms = min(left_ms, group.deadline_ms - meter.now_ms())
            if left_ms <= 0:
                self._refuse_late(queue)
            elif why := meter.refuses_produce():
                self._refuse(self._take(queue), Failure(ErrorCode.POLICY_VIOLATION, why))
            elif hold_ms := meter.produce_hold_ms(group.nbytes):
                if queue.timer is not None:
                    queue.timer.cancel()
                wait_ms = min(max(hold_ms, PAUSE_MS_MIN), left_ms)
                queue.timer = self._call_later(wait_ms / 1000, lambda: self._go_on(instance))
                return
            else:
                self._take(queue)
                group.throttle_ms = meter.produced(group.nbytes)
                self._append(group)
        del self._queues[instance]
        self._end(queue)

    def _refuse_late(self, queue: _Queue) -> None:
        """Refuses the first group, and what may not be in a log without it."""
        first = self._take(queue)
        doomed, producers = [first], _producers(first)
        if producers:
            kept: list[tuple[AppendGroup, int]] = []
            for group, since_ms in queue.groups:
                if producers.isdisjoint(others := _producers(group)):
                    kept.append((group, since_ms))
                else:
                    doomed.append(group)
                    producers |= others
                    self._count(queue.meter, -group.nbytes)
            queue.groups.clear()
            queue.groups.extend(kept)
        for group in doomed:
            self._refuse_for_now(queue.meter, group)

    def _refuse_for_now(self, meter: ProduceMeter, group: AppendGroup) -> None:
        group.throttle_ms = meter.refused(group.nbytes)
        message = "the instance is over its produce limit, and too much waits"
        self._refuse(group, Failure(ErrorCode.REQUEST_TIMED_OUT, message))


def _producers(group: AppendGroup) -> set[tuple[bytes, int, bytes]]:
    """The idempotent producers of a group's batches, each in its partition."""
    return {
        (group.topic_id, group.partition, producer_of(batch))
        for batch in group.batches
        if is_idempotent(batch)
    }
