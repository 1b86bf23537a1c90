"""What a simulated node makes of the controller's wish that another replica leads.

As `node.asked_hand_overs` of the partition service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.partition.core import replica_events as on
from highwater.partition.core.succession import have_all
from highwater.partition.core.transitions import Role
from tests.sim.network import CONTROLLER

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess

CATCH_UP_MS = 200
"""How long a leader waits for the logs of those who could lead."""


class AskedHandOver:
    """One node's, from a wish until the next epoch, or until the leader goes on."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process
        self._asked: tuple[int, int, int] | None = None
        """The leader epoch that is to be handed over, to whom, and since when."""

    def ask(self, leader_epoch: int, successor: int) -> None:
        """Resigns, if this node leads in that epoch."""
        process = self._process
        replica = process.replica
        leads = replica.role is Role.LEADER and replica.leader_epoch == leader_epoch
        if not leads or replica.resigned:
            return
        process.handle(on.HandOverAsked())
        if process.replica.resigned:
            self._asked = (leader_epoch, successor, process.world.now)
            self.answer()

    def answer(self) -> None:
        """Says once that the successor has everything; goes on if that, or an epoch, is late."""
        process = self._process
        if self._asked is None:
            return
        (epoch, successor, since_ms), replica = self._asked, process.replica
        if replica.role is not Role.LEADER or replica.leader_epoch != epoch:
            self._asked = None
            return
        handed = process.world.observer.handed_over
        if epoch not in handed and self._has_all(successor):
            process.world.observer.hands_over(process, [successor])
            process.world.network.send(process.node, CONTROLLER, "on_handed_over", (epoch,))
        if process.world.now - since_ms >= CATCH_UP_MS:
            self._asked = None
            if process.stopping_since_ms is None:
                handed.pop(epoch, None)
                process.handle(on.HandOverGivenUp())

    def _has_all(self, successor: int) -> bool:
        """The successor has the whole log, and nobody waits for an answer."""
        process = self._process
        nodes = iter((successor,))
        return not len(process.commits) and have_all(
            nodes, process.replica.followers, process.log.end
        )
