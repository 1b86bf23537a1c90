"""The controller asks leaders to hand over before others are elected in their place.

As `highwater.controller.active.hand_overs`, which is asyncio, for one partition: the same decisions
of `highwater.controller.core.hand_over` in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from highwater.controller.core.hand_over import LeaderMove, as_asked, leader_moves, waiting_moves
from highwater.controller.core.outcome import Decision
from tests.sim.network import CONTROLLER

if TYPE_CHECKING:
    from tests.sim.controller import SimController

ANSWER_MS = 500
"""For the answer of a leader that is asked to hand over."""
MOVE_TRIES = 3
MOVE_PAUSE_MS = 120

Decide = Callable[[], Decision[Any]]
_Asked = tuple[int, int, Decide, bool, LeaderMove]


class HandOvers:
    """Of one controller; `forget` when another one takes its place."""

    def __init__(self, controller: SimController) -> None:
        self._controller = controller
        self.successor: int | None = None
        """Whom a leader was asked for last, while its answer is awaited."""
        self._asked: _Asked | None = None
        """The leader and its epoch, what is to be decided, whether it completes a move, and what the leader
        was asked for."""
        self._refusals: dict[int, int] = {}
        """By leader epoch, how often its leader went on instead of completing a move."""
        self._next_try_ms = 0

    def forget(self) -> None:
        """Nothing of this is in the store."""
        self._asked = self.successor = None
        self._refusals = {}

    def carry_out(self, decide: Decide, *, is_move: bool = False) -> None:
        """Asks the leader that the decision would replace; nothing if there is none that lives."""
        controller = self._controller
        moves = leader_moves(controller.image, decide().delta)
        if self._asked is not None or not moves:
            return
        (move,) = moves
        self._asked = (move.leader, move.leader_epoch, decide, is_move, move)
        self.successor = move.successor
        question = (move.leader_epoch, move.successor)
        world = controller.world
        world.network.send(CONTROLLER, move.leader, "on_hand_over_asked", question)
        world.after(ANSWER_MS, self._not_answered, self._asked)

    def finish_moves(self) -> None:
        """Moves that wait for nothing but, perhaps, the leader that they remove."""
        controller = self._controller
        if self._asked is not None or controller.world.now < self._next_try_ms:
            return
        if not any(True for _ in waiting_moves(controller.image)):
            return
        decision = controller.finished_moves()
        if leader_moves(controller.image, decision.delta):
            self.carry_out(controller.finished_moves, is_move=True)
        else:
            controller.commit(decision)

    def answered(self, node: int, leader_epoch: int, *, ready: bool) -> None:
        """A leader has handed over, or goes on."""
        asked = self._asked
        if asked is None or asked[:2] != (node, leader_epoch):
            return
        is_move = asked[3]
        self._asked = self.successor = None
        if ready:
            self._elect(asked)
        elif is_move:
            self._next_try_ms = self._controller.world.now + MOVE_PAUSE_MS
            self._refusals[leader_epoch] = self._refusals.get(leader_epoch, 0) + 1
            if self._refusals[leader_epoch] >= MOVE_TRIES:
                self._controller.world.observer.replaced_without_hand_over(leader_epoch)
                self._elect(asked, anybody=True)

    def _not_answered(self, asked: _Asked) -> None:
        if asked is not self._asked:
            return
        if self._controller.paused:
            self._controller.world.after(ANSWER_MS, self._not_answered, asked)
            return
        self._asked = self.successor = None
        self._controller.world.observer.replaced_without_hand_over(asked[1])
        self._elect(asked)

    def _elect(self, asked: _Asked, *, anybody: bool = False) -> None:
        """Nothing if another epoch has begun, whose leader nobody has asked; only the successor that the
        leader was asked for, unless `anybody` may lead.
        """
        _, leader_epoch, decide, _, move = asked
        if self._controller.partition.leader_epoch == leader_epoch:
            decision = decide()
            image = self._controller.image
            self._controller.commit(decision if anybody else as_asked(image, decision, [move]))
