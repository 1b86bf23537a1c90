"""The first part of a node's stop (Kafka: controlled shutdown): others lead what they can."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from highwater.metadata.watch import ClusterWatch
from highwater.partition.config import PartitionConfig
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node.hand_over import hand_over
from highwater.partition.node.membership import Membership
from highwater.runtime.logging import Logger


class Stoppable(Protocol):
    """Hand-overs that the controller asks for; they end when the node stops."""

    def stop(self) -> None:
        """Ends them."""
        ...


class ControlledShutdown:
    """See the module. `run` does it once; further calls do nothing."""

    def __init__(
        self,
        *,
        membership: Callable[[], Membership | None],
        replicas: Callable[[], Iterable[PartitionReplica]],
        watch: ClusterWatch,
        asked_hand_overs: Stoppable,
        config: PartitionConfig,
        log: Logger,
    ) -> None:
        """`membership` gives None before the node has joined; `replicas` those of clients' topics."""
        self._membership = membership
        self._replicas = replicas
        self._watch = watch
        self._asked_hand_overs = asked_hand_overs
        self._drain_s = config.drain_s
        self._catch_up_s = min(config.drain_catch_up_s, config.drain_s)
        self._log = log
        self._begun = False

    async def run(self) -> None:
        """Lets others lead what they can, within `drain_s`; what they cannot lead goes on here."""
        if self._begun:
            return
        self._begun = True
        membership = self._membership()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._drain_s
        self._asked_hand_overs.stop()
        if membership is None or not self._others_can_lead(membership):
            return
        behind = await hand_over(self._replicas(), self._catch_up_s)
        if behind:
            self._log.warning("followers_behind", partitions=len(behind))
        await membership.drain(max(deadline_s - loop.time(), self._drain_s / 4))

    def _others_can_lead(self, membership: Membership) -> bool:
        image = self._watch.image
        return image is not None and any(
            not state.fenced and not state.draining
            for node, state in image.nodes.items()
            if node != membership.node_id
        )
