"""Partitions that the controller asks this node to hand over, while it goes on with all others.

As for a node that stops (`hand_over`): nothing is appended until the successor has the whole log.
But the leader may go on, if its successor lags or leaves, or if nobody is elected; so what comes
meanwhile waits here instead of at gateways, which would wait for the next leader epoch.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from highwater.model.ids import TopicId
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node.hand_over import LOOK_S
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

ELECTED_S: Final = 2.0
"""After which a leader goes on that said it was ready: a heartbeat and a commit take milliseconds."""

LOOKS_PART: Final = 4
"""Of its time the loop spends one in so many parts on looks, at most: with the 1 000 partitions that a controller
may ask for at once, one look takes some 7 ms."""

TOLD_S: Final = 0.5
"""How long heartbeats tell that a leader goes on; the controller may ask again then."""

Key = tuple[TopicId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedHandOver:
    """What the controller wants: `successor` is to lead after `leader_epoch`."""

    key: Key
    leader_epoch: int
    successor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOverAnswer:
    """Whether the successor has everything; if not, the leader goes on."""

    key: Key
    leader_epoch: int
    successor: int
    ready: bool


class _HandOver:
    """One that is under way: until `answer` is set the successor catches up, then it is elected."""

    __slots__ = ("answer", "asked", "deadline_s", "holds", "internal", "replica")

    def __init__(
        self, asked: AskedHandOver, replica: PartitionReplica, deadline_s: float, *, internal: bool
    ) -> None:
        self.asked = asked
        self.replica = replica
        self.internal = internal
        self.deadline_s = deadline_s
        self.holds = not internal and replica.hold_appends()
        self.answer: HandOverAnswer | None = None

    @property
    def over(self) -> bool:
        """Another epoch has begun, or this node has the replica no longer."""
        replica = self.replica
        return not replica.leading or replica.leader_epoch != self.asked.leader_epoch

    @property
    def ready(self) -> bool:
        """The successor has everything, and nobody waits for an answer."""
        return self.internal or (self.holds and self.replica.handed_over_to(self.asked.successor))

    @property
    def successor_unable(self) -> bool:
        """The successor would not be elected: it is fenced, stops, or has left the ISR; or this
        replica could not hold its appends.
        """
        if not (self.internal or self.holds):
            return True
        return self.asked.successor not in self.replica.successors()

    def ask_again(self, asked: AskedHandOver, deadline_s: float) -> None:
        """Waits for another successor from now on, and still appends nothing: the one before may be elected yet,
        if the controller has heard that it has everything.
        """
        self.asked, self.deadline_s, self.answer = asked, deadline_s, None
        if not (self.internal or self.holds):
            self.holds = self.replica.hold_appends()

    def lead_on(self) -> None:
        """Takes what has waited, in the same epoch."""
        if self.holds:
            self.holds = False
            self.replica.resume()


class AskedHandOvers:
    """On the node's loop; `answers` is replaced as a whole, as another thread reads it.

    One task looks at everything that is under way, so many partitions cost one timer.
    """

    def __init__(
        self,
        *,
        find: Callable[[Key], PartitionReplica | None],
        is_internal: Callable[[Key], bool],
        answered: Callable[[], None],
        catch_up_s: float,
        tasks: TaskOwner,
        log: Logger,
    ) -> None:
        """`answered` sends a heartbeat. `catch_up_s` is the time of a successor.

        Coordinators' topics (`is_internal`) are not waited for: they repeat their appends.
        """
        self._find = find
        self._is_internal = is_internal
        self._tell = answered
        self._catch_up_s = catch_up_s
        self._tasks = tasks
        self._log = log
        self._under_way: dict[Key, _HandOver] = {}
        self._looking = False
        self._stopped = False
        self.answers: tuple[HandOverAnswer, ...] = ()

    def ask(self, asked: Iterable[AskedHandOver]) -> None:
        """Begins what is not under way in that epoch, also if only the successor is another one."""
        if self._stopped:
            return
        deadline_s = asyncio.get_running_loop().time() + self._catch_up_s
        for one in asked:
            replica = self._find(one.key)
            if replica is None or not replica.leading or replica.leader_epoch != one.leader_epoch:
                continue  # The next image, or the last one, tells the controller the same.
            present = self._under_way.get(one.key)
            if present is not None and present.asked.leader_epoch == one.leader_epoch:
                if present.asked.successor != one.successor:
                    present.ask_again(one, deadline_s)
                continue
            self._under_way[one.key] = _HandOver(
                one, replica, deadline_s, internal=self._is_internal(one.key)
            )
        if self._under_way and not self._looking:
            self._looking = True
            self._tasks.start(self._look(), name="asked-hand-overs")

    def stop(self) -> None:
        """The node stops, and hands over all of its partitions.

        Where the controller has been told that the successor has everything, nothing more may be
        appended: it may elect at any time. Elsewhere this node leads on until then.
        """
        self._stopped = True
        for key, one in list(self._under_way.items()):
            if one.answer is None:
                del self._under_way[key]
                if not one.over:
                    one.lead_on()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._under_way:
                now_s = loop.time()
                for one in list(self._under_way.values()):
                    self._advance(one, now_s)
                self._publish()
                await asyncio.sleep(max(LOOK_S, (LOOKS_PART - 1) * (loop.time() - now_s)))
        finally:
            self._looking = False
            self._give_up_all()

    def _advance(self, one: _HandOver, now_s: float) -> None:
        if one.over:
            del self._under_way[one.asked.key]
        elif one.answer is not None:
            if now_s >= one.deadline_s or (one.answer.ready and one.successor_unable):
                del self._under_way[one.asked.key]
                if one.answer.ready:
                    self._lead_on(one)
        elif one.successor_unable or (not one.ready and now_s >= one.deadline_s):
            self._lead_on(one)
            self._answer(one, now_s + TOLD_S, ready=False)
        elif one.ready:
            self._answer(one, now_s + ELECTED_S, ready=True)

    def _answer(self, one: _HandOver, deadline_s: float, *, ready: bool) -> None:
        asked = one.asked
        one.answer = HandOverAnswer(
            key=asked.key,
            leader_epoch=asked.leader_epoch,
            successor=asked.successor,
            ready=ready,
        )
        one.deadline_s = deadline_s

    def _lead_on(self, one: _HandOver) -> None:
        if self._stopped:
            return
        one.lead_on()
        self._log.info(
            "leads_on",
            topic=one.replica.topic_name,
            partition=one.replica.partition,
            successor=one.asked.successor,
        )

    def _give_up_all(self) -> None:
        under_way, self._under_way = self._under_way, {}
        for one in under_way.values():
            if not (one.over or self._stopped):
                one.lead_on()
        self._publish()

    def _publish(self) -> None:
        answers = tuple(one.answer for one in self._under_way.values() if one.answer is not None)
        if answers != self.answers:
            news = set(answers).difference(self.answers)
            self.answers = answers
            if news:
                self._tell()
