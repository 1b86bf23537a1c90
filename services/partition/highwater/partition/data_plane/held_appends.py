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
    it has waited too long, or its deadline    is refused
    has come
    the replica leads no more                  is refused at once, as the replica says; nothing waits in vain

What is refused is in no log. Clients are answered REQUEST_TIMED_OUT, which all of them repeat, and are
muted as those whose groups were appended; so a busy client's next request comes when it may pass. With a
group go those batches that its idempotent producers sent later, until they send it again: they may not be
in a log without it (`RefusedProducers`).
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from highwater.hop.append import AppendGroup, Failure
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId, TopicId
from highwater.model.time import CallLater, Timer
from highwater.partition.data_plane.refused_batch import RefusedBatch
from highwater.partition.data_plane.refused_producers import (
    REMEMBERED_MS,
    KnownProducers,
    RefusedProducers,
)

HELD_MS_MAX: Final = 10_000
"""The longest wait. A client that does not heed the time that it is told is muted for 5 s before, and the
usual time limit of a request is 30 s."""
INSTANCE_BYTES_MAX: Final = 32 << 20
"""Of one instance at one node. A gateway keeps them too; it has room for 256 MiB of all instances."""
NODE_BYTES_MAX: Final = 128 << 20
"""Of all instances. One group of an instance may always wait."""
GROUPS_MAX: Final = 4096
"""Of one instance, each of one batch at least."""
SHARED_BYTES_MAX: Final = 4
"""A group may lie in a buffer of so many times its bytes while it waits; from a longer one it is copied,
as otherwise all of that buffer would stay for it: its message, which may be as long as a frame."""
PAUSE_MS_MIN: Final = 10
"""Between two looks at a queue; a bucket holds ten times as much."""


_TOO_MUCH: Final = Failure(
    ErrorCode.REQUEST_TIMED_OUT, "the instance is over its produce limit, and too much waits"
)


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


_Key: TypeAlias = tuple[TopicId, int]


class _Waiting:
    """One group, None when it has been answered; and when it came."""

    __slots__ = ("group", "since_ms")

    def __init__(self, group: AppendGroup, since_ms: int) -> None:
        self.group: AppendGroup | None = group
        self.since_ms = since_ms


class _Queue:
    """The groups of one instance. Used while one of them waits."""

    __slots__ = ("_of_partition", "count", "instance", "meter", "timer", "waiting")

    def __init__(self, instance: InstanceId, meter: ProduceMeter) -> None:
        self.instance = instance
        self.meter = meter
        self.waiting: deque[_Waiting] = deque()
        self._of_partition: dict[_Key, deque[_Waiting]] = {}
        self.count = 0
        self.timer: Timer | None = None

    def add(self, group: AppendGroup) -> None:
        """Behind all others."""
        one = _Waiting(group, self.meter.now_ms())
        self.waiting.append(one)
        self._of_partition.setdefault((group.topic_id, group.partition), deque()).append(one)
        self.count += 1

    def first(self) -> tuple[AppendGroup, int] | None:
        """The first group, and when it came."""
        while self.waiting:
            one = self.waiting[0]
            if one.group is not None:
                return one.group, one.since_ms
            self.waiting.popleft()
        return None

    def remove(self, first: AppendGroup) -> None:
        """Removes the first one."""
        key = (first.topic_id, first.partition)
        self.waiting.popleft()
        of_partition = self._of_partition[key]
        of_partition.popleft()
        if not of_partition:
            del self._of_partition[key]
        self.count -= 1

    def take_all_of(self, key: _Key) -> list[AppendGroup]:
        """Removes the groups of a partition, in order; however many others wait."""
        taken: list[AppendGroup] = []
        for one in self._of_partition.pop(key, ()):
            assert one.group is not None
            taken.append(one.group)
            one.group = None
        self.count -= len(taken)
        return taken


class HeldAppends:
    """See the module. Of one node, on its loop; the node's end is `end`."""

    def __init__(
        self,
        call_later: CallLater,
        append: Callable[[AppendGroup], None],
        refuse: Callable[[AppendGroup, Failure], None],
        known: Callable[[AppendGroup], KnownProducers | None],
    ) -> None:
        """`append` and `refuse` each complete a group, or see to it. `known` gives the producers of a
        group's log, if it is here.
        """
        self._call_later = call_later
        self._append = append
        self._refuse = refuse
        self._known = known
        self._queues: dict[InstanceId, _Queue] = {}
        self.refused: dict[InstanceId, RefusedProducers] = {}
        """Those that have lost a batch lately; nearly always empty."""
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
            if not self.refused or self.spares(group, meter):
                self._pass(meter, group)
        elif queue is None:
            self._begin(meter, group)
        elif (
            queue.count < GROUPS_MAX
            and meter.held_bytes + group.nbytes <= INSTANCE_BYTES_MAX
            and self._held_bytes + group.nbytes <= NODE_BYTES_MAX
        ):
            self._add(queue, group)
        else:
            self._refuse_for_now(meter, group)

    def leader_gone(self, instance: InstanceId, key: _Key, failure: Failure) -> None:
        """A replica leads no more: answers its groups, in order. Gateways wait for that before they
        send anything to the next leader.
        """
        queue = self._queues.get(instance)
        groups = [] if queue is None else queue.take_all_of(key)
        if queue is None or not groups:
            return
        for group in groups:
            self._count(queue.meter, -group.nbytes)
        # Others may have waited for these only.
        self._look_later(queue, 0)
        for group in groups:
            group.fail(failure)

    def end(self) -> None:
        """Refuses whatever waits, and holds nothing more: the node has handed over and stops."""
        self._ended = True
        failure = Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the node stops")
        queues, self._queues = self._queues, {}
        for queue in queues.values():
            self._end(queue)
            while (first := queue.first()) is not None:
                self._remove(queue, first[0])
                self._refuse(first[0], failure)

    def _begin(self, meter: ProduceMeter, group: AppendGroup) -> None:
        queue = self._queues[group.instance] = _Queue(group.instance, meter)
        meter.on_share = lambda: self._go_on(queue)
        self._add(queue, group)
        self._go_on(queue)

    def _end(self, queue: _Queue) -> None:
        queue.meter.on_share = None
        if queue.timer is not None:
            queue.timer.cancel()

    def _add(self, queue: _Queue, group: AppendGroup) -> None:
        group.leave_buffer(SHARED_BYTES_MAX * group.nbytes)
        queue.add(group)
        self._count(queue.meter, group.nbytes)

    def _remove(self, queue: _Queue, first: AppendGroup) -> None:
        queue.remove(first)
        self._count(queue.meter, -first.nbytes)

    def _count(self, meter: ProduceMeter, nbytes: int) -> None:
        meter.held_bytes += nbytes
        self._held_bytes += nbytes

    def _go_on(self, queue: _Queue) -> None:
        """Appends what may pass, and looks again when the next one may."""
        meter = queue.meter
        while (first := queue.first()) is not None:
            group, since_ms = first
            left_ms = since_ms + HELD_MS_MAX - meter.now_ms()
            if group.deadline_ms:
                left_ms = min(left_ms, group.deadline_ms - meter.now_ms())
            if left_ms <= 0:
                self._remove(queue, group)
                self._refuse_for_now(meter, group)
            elif why := meter.refuses_produce():
                self._remove(queue, group)
                self._refuse(group, Failure(ErrorCode.POLICY_VIOLATION, why))
            elif hold_ms := meter.produce_hold_ms(group.nbytes):
                self._look_later(queue, min(max(hold_ms, PAUSE_MS_MIN), left_ms))
                return
            else:
                self._remove(queue, group)
                if not self.refused or self.spares(group, meter):
                    self._pass(meter, group)
        del self._queues[queue.instance]
        self._end(queue)

    def _look_later(self, queue: _Queue, wait_ms: int) -> None:
        if queue.timer is not None:
            queue.timer.cancel()
        queue.timer = self._call_later(wait_ms / 1000, lambda: self._go_on(queue))

    def _pass(self, meter: ProduceMeter, group: AppendGroup) -> None:
        group.throttle_ms = meter.produced(group.nbytes)
        self._append(group)

    # ---- refusals ----

    def _refuse_for_now(self, meter: ProduceMeter, group: AppendGroup) -> None:
        group.throttle_ms = meter.refused(group.nbytes)
        known, refused = self._known(group), self.refused.get(group.instance)
        if refused is not None:
            refused.note(group, known)
        else:
            refused = RefusedProducers(meter.now_ms)
            refused.note(group, known)
            if refused:
                self.refused[group.instance] = refused
                self._forget_later(group.instance)
        self._refuse(group, _TOO_MUCH)

    def spares(self, group: AppendGroup, meter: ProduceMeter | None = None) -> bool:
        """False if nothing of the group may be appended, which is refused. Otherwise what may not be is
        refused in its place. Ask right before the append, also when there is no limit (no meter) any more.
        """
        refused = self.refused.get(group.instance)
        if refused is None:
            return True
        places = refused.places(group, self._known(group))
        if not places:
            return True
        if len(places) == len(group.batches):
            if meter is not None:
                group.throttle_ms = meter.refused(group.nbytes)
            self._refuse(group, _TOO_MUCH)
            return False
        # The list may be shared with the sender, who may have to send the batches as they came.
        group.batches = group.batches.copy()
        for place in places:
            group.nbytes -= len(group.batches[place])
            group.batches[place] = RefusedBatch(_TOO_MUCH)
        group.whole = None
        return True

    def _forget_later(self, instance: InstanceId) -> None:
        self._call_later(REMEMBERED_MS / 1000, lambda: self._forget(instance))

    def _forget(self, instance: InstanceId) -> None:
        refused = self.refused[instance]
        refused.forget()
        if refused:
            self._forget_later(instance)
        else:
            del self.refused[instance]
