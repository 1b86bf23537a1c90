"""Partitions that the controller asks this node to hand over, while it goes on with all others.

As for a node that stops (`hand_over`): nothing is appended until the successor has the whole log.
But the leader may go on, if its successor lags or nobody is elected; so what comes meanwhile waits
here instead of at gateways, which would wait for the next leader epoch.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from highwater.model.ids import TopicId
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node.hand_over import wait_for
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

ELECTED_S: Final = 2.0
"""After which a leader goes on that said it was ready: a heartbeat and a commit take milliseconds."""

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
    ready: bool


class AskedHandOvers:
    """On the node's loop; `answers` is replaced as a whole, as another thread reads it."""

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
        self._under_way: dict[Key, int] = {}
        self.answers: tuple[HandOverAnswer, ...] = ()

    def ask(self, asked: Iterable[AskedHandOver]) -> None:
        """Begins what is not under way in that epoch."""
        for one in asked:
            replica = self._find(one.key)
            if replica is None or not replica.leading or replica.leader_epoch != one.leader_epoch:
                continue  # The next image, or the last one, tells the controller the same.
            if self._under_way.get(one.key) == one.leader_epoch:
                continue
            self._under_way[one.key] = one.leader_epoch
            name = f"hand-over-{replica.topic_name}-{replica.partition}"
            self._tasks.start(self._hand_over(replica, one), name=name)

    async def _hand_over(self, replica: PartitionReplica, asked: AskedHandOver) -> None:
        internal = self._is_internal(asked.key)
        try:
            held = internal or replica.hold_appends()
            ready = held and (
                internal
                or await self._within(
                    self._catch_up_s, replica, lambda one: one.handed_over_to(asked.successor)
                )
            )
            if not ready:
                replica.resume()
                self._log.info(
                    "leads_on",
                    topic=replica.topic_name,
                    partition=replica.partition,
                    successor=asked.successor,
                )
            self._answer(asked, ready=ready)
            limit_s = ELECTED_S if ready else TOLD_S
            await self._within(limit_s, replica, lambda one: not _leads(one, asked))
        finally:
            self._forget(asked)
            if _leads(replica, asked) and not internal:
                replica.resume()

    async def _within(
        self, limit_s: float, replica: PartitionReplica, is_so: Callable[[PartitionReplica], bool]
    ) -> bool:
        deadline_s = asyncio.get_running_loop().time() + limit_s
        return not await wait_for([replica], is_so, deadline_s)

    def _answer(self, asked: AskedHandOver, *, ready: bool) -> None:
        answer = HandOverAnswer(key=asked.key, leader_epoch=asked.leader_epoch, ready=ready)
        self.answers = (*self.answers, answer)
        self._tell()

    def _forget(self, asked: AskedHandOver) -> None:
        del self._under_way[asked.key]
        self.answers = tuple(one for one in self.answers if one.key != asked.key)


def _leads(replica: PartitionReplica, asked: AskedHandOver) -> bool:
    return replica.leading and replica.leader_epoch == asked.leader_epoch
