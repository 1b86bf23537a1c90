"""Connects one node's replication parts: fetchers, ISR proposals, the check for lagging followers.

It is the `ReplicationPort` of all replicas. `start` it when the node is registered.
"""

from collections.abc import Callable, Iterable
from typing import Final

from highwater.hop.channels import HopChannels
from highwater.model.cluster import ClusterImage
from highwater.model.ids import NodeId
from highwater.model.time import Clock
from highwater.partition.core.replica_effects import ProposeIsr
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.follower.fetchers import ReplicaFetchers
from highwater.partition.replication.leader.isr_proposals import IsrClient, IsrProposals
from highwater.partition.replication.leader.lag_timer import LagTimer
from highwater.partition.replication.throttle import Side, Throttle
from highwater.partition.replication.traffic import ReplicaTraffic
from highwater.partition.storage.log.log import PartitionLog
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

CLOSE_TIMEOUT_S: Final = 1.0


class NodeReplication:
    """See the module. Build it on the loop that it runs on."""

    def __init__(
        self,
        *,
        replicas: Callable[[], Iterable[PartitionReplica]],
        client: IsrClient,
        identity: Callable[[], tuple[int, int]],
        flush: Callable[[PartitionLog, Callable[[], None]], None],
        lag_ms_max: int,
        on_bug: Callable[[PartitionReplica, Exception], None],
        on_failure: Callable[[str, BaseException], None],
        clock: Clock,
        log: Logger,
        channels: HopChannels,
        reads_files: bool = False,
    ) -> None:
        """`replicas` gives all replicas of the node, `identity` its id and node epoch.

        `flush` is the log store's; `lag_ms_max` is replica.lag.time.max.ms. `on_bug` is called for
        replicas that an unexpected error took offline, `on_failure` for tasks and streams that
        failed. `channels` lead to other nodes. With `reads_files`, records of leaders on this host are read from their files.
        """
        self._identity = identity
        self._clock = clock
        self.leader_throttle = Throttle(Side.LEADER)
        self.follower_throttle = Throttle(Side.FOLLOWER)
        self.traffic = ReplicaTraffic()
        self._fetchers = ReplicaFetchers(
            identity=identity,
            flush=flush,
            on_bug=on_bug,
            on_failure=on_failure,
            clock=clock,
            log=log,
            channels=channels,
            throttle=self.follower_throttle,
            traffic=self.traffic,
            reads_files=reads_files,
        )
        self.proposals = IsrProposals(
            client, identity=identity, clock=clock, log=log, on_bug=on_bug
        )
        self._lag = LagTimer(replicas, lag_ms_max=lag_ms_max, clock=clock, on_bug=on_bug)
        self._tasks = TaskOwner(on_failure)
        self.follow = self._fetchers.follow
        self.stop_following = self._fetchers.stop_following
        self.resume = self._fetchers.resume

    def propose_isr(self, replica: PartitionReplica, proposal: ProposeIsr) -> None:
        """See ReplicationPort."""
        self.proposals.propose_isr(replica, proposal)

    def image_changed(self, image: ClusterImage) -> None:
        """Applies nodes' addresses and throttles; call it before the replicas get the image."""
        node_id, now_ms = NodeId(self._identity()[0]), self._clock.monotonic_ms()
        self.leader_throttle.follow(image, node_id, now_ms)
        self.follower_throttle.follow(image, node_id, now_ms)
        self._fetchers.image_changed(image)

    def start(self) -> None:
        """Starts proposing ISRs and checking for lagging followers."""
        self._tasks.start(self.proposals.run(), name="isr-proposals")
        self._tasks.start(self._lag.run(), name="isr-lag")

    async def close(self) -> None:
        """Ends all streams and tasks."""
        await self._tasks.close(timeout_s=CLOSE_TIMEOUT_S)
        await self._fetchers.close()
