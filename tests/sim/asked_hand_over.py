"""What a simulated node does when the controller asks it to let another replica lead.

As `node.asked_hand_overs` of the partition service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.partition.core.transitions import Role
from tests.sim.network import CONTROLLER

if TYPE_CHECKING:
    from tests.sim.node import NodeProcess

CATCH_UP_MS = 200
"""How long a leader waits for its successor's log."""
ELECTED_MS = 400
"""After which a leader goes on that said it was ready."""


class AskedHandOver:
    """One node's, from the question until the next epoch, or until the leader goes on."""

    def __init__(self, process: NodeProcess) -> None:
        self._process = process
        self._asked: tuple[int, int] | None = None
        """The leader epoch that is to be handed over, and to whom."""
        self._deadline_ms = 0
        self._ready = False
        """The controller was told that the successor has everything."""

    def ask(self, leader_epoch: int, successor: int) -> None:
        """Resigns, if this node leads in that epoch."""
        process = self._process
        replica = process.replica
        leads = replica.role is Role.LEADER and replica.leader_epoch == leader_epoch
        if not leads or replica.resigned or process.stopping_since_ms is not None:
            return
        if not process.role.hold_appends():
            self._answer(leader_epoch, ready=False)
            return
        self._asked = (leader_epoch, successor)
        self._deadline_ms = process.world.now + CATCH_UP_MS
        self._ready = False
        self.look()

    def look(self) -> None:
        """Says once that the successor has everything; goes on if it leaves, or if it is late."""
        if self._asked is None:
            return
        process, (epoch, successor) = self._process, self._asked
        replica, now = process.replica, process.world.now
        if replica.role is not Role.LEADER or replica.leader_epoch != epoch:
            self.end()
        elif not self.can_lead(successor) or now >= self._deadline_ms:
            was_ready = self._ready
            self.lead_on()
            if not was_ready:
                self._answer(epoch, ready=False)
        elif not self._ready and self._has_all(successor):
            self._ready = True
            self._deadline_ms = now + ELECTED_MS
            process.world.observer.hands_over(process, [successor])
            self._answer(epoch, ready=True)

    def can_lead(self, successor: int) -> bool:
        """It is a replica in the ISR, and neither fenced nor draining, as the image says."""
        return successor in self._process.successors

    @property
    def successor(self) -> int | None:
        """The node that the leader waits for, or that is being elected."""
        return None if self._asked is None else self._asked[1]

    def lead_on(self) -> None:
        """Goes on in the same epoch with what has waited; nothing if nothing is under way."""
        if self._asked is None:
            return
        epoch, _ = self._asked
        self.end()
        self._process.world.observer.leads_on(epoch)
        self._process.part.run(self._process.role.resume)

    def node_stops(self) -> None:
        """Its own hand-over takes this one's place, unless the successor is being elected."""
        if not self._ready:
            self.lead_on()

    def end(self) -> None:
        """Another epoch has begun, or the replica is gone."""
        self._asked = None
        self._ready = False

    def _answer(self, epoch: int, *, ready: bool) -> None:
        process = self._process
        process.world.network.send(
            process.node, CONTROLLER, "on_handed_over", (process.node, epoch, ready)
        )

    def _has_all(self, successor: int) -> bool:
        """The successor has the whole log, and nobody waits for an answer."""
        return self._process.role.handed_over_to(successor)
