"""Asks leaders to hand over before others are elected in their place (see `core.hand_over`).

They are asked in the answers to their heartbeats, and answer in the next one, which they send as
soon as they can tell. Nothing of this is in the store: if the controller changes meanwhile, or a
leader does not answer, the leader goes on after a second or two, or is replaced without its help.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from highwater.controller.core.hand_over import (
    LeaderMove,
    as_asked,
    finish_moves,
    leader_moves,
    still_led,
    waiting_moves,
)
from highwater.controller.core.membership import ElectionRules
from highwater.controller.core.offline_replicas import OfflineByNode
from highwater.controller.core.outcome import Decision
from highwater.controller.core.partition_index import PartitionKey
from highwater.controller.image.writer import MetadataWriter
from highwater.controller.store.port import StoreUnavailableError
from highwater.model.cluster import ClusterImage
from highwater.model.errors import LimitExceededError
from highwater.model.ids import NodeId
from highwater.runtime.logging import Logger

WAIT_S: Final = 3.0
"""For a leader's answer: a heartbeat may be a second away, and its followers have another one."""

AT_ONCE_MAX: Final = 1_000
"""Leaders that are asked together; the answer to a heartbeat has so many at most."""

MOVE_TRIES: Final = 3
"""How often a leader that a reassignment removes is asked, if its successor lags; then it goes."""

MOVE_PAUSE_S: Final = 1.0

Elect = Callable[[frozenset[PartitionKey]], Awaitable[None]]
"""Elects the successors of leaders that are ready, or that did not answer."""


class HandOvers:
    """All of one term. `run` completes reassignments that remove the leader."""

    def __init__(
        self,
        writer: MetadataWriter,
        elections: ElectionRules,
        offline: Callable[[], OfflineByNode],
        log: Logger,
    ) -> None:
        self._writer = writer
        self._elections = elections
        self._offline = offline
        self._log = log
        self._asked: dict[NodeId, dict[PartitionKey, LeaderMove]] = {}
        self._answers: dict[PartitionKey, bool] = {}
        """Of leaders that were asked: whether the successor has everything."""
        self._answered = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()

    # ---- what nodes hear and say ----

    def asked_of(self, node: NodeId) -> Sequence[LeaderMove]:
        """What the node is to hand over and has not answered yet."""
        asked = self._asked.get(node, {})
        return [move for key, move in asked.items() if key not in self._answers]

    def answered(
        self,
        node: NodeId,
        key: PartitionKey,
        leader_epoch: int,
        *,
        ready: bool,
        successor: int | None = None,
    ) -> None:
        """A leader has handed over, or goes on because its successor lags. It repeats an answer for a while, so
        that may be to an earlier question, for another successor; None if an older node does not say.
        """
        move = self._asked.get(node, {}).get(key)
        if move is None or move.leader_epoch != leader_epoch:
            return
        if successor is None or successor == move.successor:
            self._answers.setdefault(key, ready)
            self._answered.set()

    # ---- elections ----

    async def carry_out(
        self, moves: Sequence[LeaderMove], elect: Elect, timeout_s: float = WAIT_S
    ) -> frozenset[PartitionKey]:
        """Asks the leaders, and has successors elected as they answer; those that go on leading, because
        their successors lag, or were not elected.

        Raises what `elect` raises. One caller at a time, whose time begins with its turn.
        """
        for first in range(0, len(moves), AT_ONCE_MAX):
            async with self._one_at_a_time:
                try:
                    await self._carry_out(moves[first : first + AT_ONCE_MAX], elect, timeout_s)
                finally:
                    self._asked.clear()
                    self._answers.clear()
        return still_led(self._writer.image, moves, frozenset(move.key for move in moves))

    async def _carry_out(self, moves: Sequence[LeaderMove], elect: Elect, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        waiting = set()
        for move in moves:
            self._asked.setdefault(move.leader, {})[move.key] = move
            waiting.add(move.key)
        while waiting and (left_s := deadline_s - loop.time()) > 0:
            self._answered.clear()
            new = {key: ready for key, ready in self._answers.items() if key in waiting}
            if new:
                waiting -= new.keys()
                ready = {key for key, ready in new.items() if ready}
                if present := still_led(self._writer.image, moves, ready):
                    await elect(present)
                continue
            try:
                async with asyncio.timeout(left_s):
                    await self._answered.wait()
            except TimeoutError:
                break
        if waiting:
            self._log.info("leaders_did_not_answer", partitions=len(waiting))
            if present := still_led(self._writer.image, moves, waiting):
                await elect(present)

    # ---- reassignments ----

    async def run(self) -> None:
        """Completes moves that wait for their leader, for ever. Raises NotActiveError.

        Nobody else does: elections leave them. So this begins with those of the former term, and
        moves that the store could not take are tried again with the next change.
        """
        keys = frozenset[PartitionKey]()
        async for change in self._writer.hub.changes(0, self._writer.image.cluster_id):
            # Mostly nothing moves; then a large change need not be looked through.
            keys = keys.union(waiting_moves(change) if self._writer.index.moving else ())
            for left in range(MOVE_TRIES - 1, -1, -1):
                if not keys:
                    break
                keys = await self._try_to_finish(keys, give_up=not left)
                if keys:
                    await asyncio.sleep(MOVE_PAUSE_S)

    async def _try_to_finish(
        self, keys: frozenset[PartitionKey], *, give_up: bool
    ) -> frozenset[PartitionKey]:
        """Those whose leaders go on, as their successors lag or cannot lead any more, or that the store
        could not take; none with `give_up`.
        """
        try:
            decision = finish_moves(self._writer.image, keys, self._elections, self._offline())
            moves = leader_moves(self._writer.image, decision.delta)
            if decision.delta is not None and (free := keys.difference(m.key for m in moves)):
                await self._finish(free, ())
            lagging = await self.carry_out(moves, partial(self._finish, moves=moves))
            if lagging and give_up:
                self._log.warning("leaders_removed_without_hand_over", partitions=len(lagging))
                await self._finish(lagging, None)
                return frozenset()
        except (StoreUnavailableError, LimitExceededError) as error:
            self._log.warning("cannot_finish_moves", error=str(error))
            return keys
        return lagging

    async def _finish(
        self, keys: frozenset[PartitionKey], moves: Sequence[LeaderMove] | None
    ) -> None:
        """Leaders that live go as in `moves`, the others stay; all go if that is None."""

        def decide(image: ClusterImage) -> Decision[int]:
            done = finish_moves(image, keys, self._elections, self._offline())
            return done if moves is None else as_asked(image, done, moves)

        await self._writer.commit(decide)
