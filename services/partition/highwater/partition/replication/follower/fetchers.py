"""All that a node fetches from other nodes: one stream to each node that leads a followed replica.

A replica names its leader (`follow`, `stop_following` of `ReplicationPort`); the image has the
leaders' addresses. Single owner, on the node's loop.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from highwater.hop.channels import HopChannels
from highwater.model.cluster import ClusterImage, NodeState
from highwater.model.ids import NO_NODE, NodeId, TopicId
from highwater.model.time import Clock
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.follower.fetcher import ReplicaFetcher
from highwater.partition.replication.follower.late_rows import LateRows
from highwater.partition.replication.throttle import Throttle
from highwater.partition.replication.traffic import ReplicaTraffic
from highwater.partition.storage.log.log import PartitionLog
from highwater.runtime.logging import Logger
from highwater.runtime.tasks import TaskOwner

RETRY_S: Final = 0.1
"""Pause after a refusal: until then a new image may come, or the disk may catch up."""
IDLE_S: Final = 5.0
"""A stream without partitions is kept for this time, since leaders often come back."""
CHECK_S: Final = 1.0
CLOSE_TIMEOUT_S: Final = 2.0

Key = tuple[TopicId, int]


class ReplicaFetchers:
    """Lives from the node's start to `close`. Must be made on the loop that it runs on."""

    def __init__(
        self,
        *,
        identity: Callable[[], tuple[int, int]],
        flush: Callable[[PartitionLog, Callable[[], None]], None],
        on_bug: Callable[[PartitionReplica, Exception], None],
        on_failure: Callable[[str, BaseException], None],
        clock: Clock,
        log: Logger,
        channels: HopChannels,
        throttle: Throttle | None = None,
        traffic: ReplicaTraffic | None = None,
        reads_files: bool = False,
    ) -> None:
        """`identity` returns this node's id and node epoch; `flush` is the log store's.

        `on_bug` gets a replica that an unforeseen error took offline; `on_failure` gets the name
        and error of a stream that failed otherwise. For the last three see `ReplicaFetcher`.
        """
        self._identity = identity
        self._on_bug = on_bug
        self._clock = clock
        self._log = log
        self._channels = channels
        self._on_failure = on_failure
        self._throttle = throttle
        self._traffic = traffic
        self._reads_files = reads_files
        self._loop = asyncio.get_running_loop()
        self._tasks = TaskOwner(on_failure)
        self._late = LateRows(resume=self._ask_again, flush=flush)
        self._nodes: dict[NodeId, NodeState] = {}
        self._followed: dict[Key, tuple[PartitionReplica, NodeId]] = {}
        self._unplaced: set[NodeId] = set()
        """Leaders whose fetcher is missing, or must be made anew."""
        self._fetchers: dict[NodeId, ReplicaFetcher] = {}
        self._retries: dict[PartitionReplica, asyncio.TimerHandle] = {}
        self._idle: dict[NodeId, asyncio.TimerHandle] = {}
        self._checks: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        """How many replicas are followed."""
        return len(self._followed)

    @property
    def leaders(self) -> frozenset[NodeId]:
        """Nodes that have a stream, or an attempt to open one."""
        return frozenset(self._fetchers)

    # ---- ReplicationPort ----

    def follow(self, replica: PartitionReplica, leader: int, leader_epoch: int) -> None:  # noqa: ARG002 - each fetch says the replica's present epoch.
        """Fetch from `leader` from now on; from no node if it is -1."""
        if self._closed:
            return
        key = (replica.topic_id, replica.partition)
        before = self._followed.get(key)
        if before is not None and (before[0] is not replica or before[1] != leader):
            self._stop(*before)
        self._cancel_retry(replica)
        if leader == NO_NODE:
            return
        node_id = NodeId(leader)
        self._followed[key] = (replica, node_id)
        fetcher = self._fetcher(node_id)
        if fetcher is not None:
            fetcher.follow(replica, due=replica not in self._late)

    def stop_following(self, replica: PartitionReplica) -> None:
        """Stop fetching for this replica."""
        self._cancel_retry(replica)
        self._late.leave(replica)
        followed = self._followed.get((replica.topic_id, replica.partition))
        if followed is not None and followed[0] is replica:
            self._stop(*followed)

    def _stop(self, replica: PartitionReplica, leader: NodeId) -> None:
        del self._followed[replica.topic_id, replica.partition]
        if leader not in self._fetchers:
            return
        fetcher = self._fetchers[leader]
        fetcher.stop_following(replica)
        self._end_if_idle_for_long(leader, fetcher)

    def _end_if_idle_for_long(self, leader: NodeId, fetcher: ReplicaFetcher) -> None:
        if not len(fetcher.session) and leader not in self._idle:
            self._idle[leader] = self._loop.call_later(IDLE_S, self._end_idle, leader)

    # ---- nodes ----

    def image_changed(self, image: ClusterImage) -> None:
        """Open streams anew to nodes that have moved or restarted; call it with every image."""
        if self._closed:
            return
        self._nodes = dict(image.nodes)
        for leader, fetcher in list(self._fetchers.items()):
            node, known = self._nodes.get(leader), fetcher.leader
            if node is not None and (
                node.address != known.address or node.incarnation != known.incarnation
            ):
                self._end(leader)
                self._unplaced.add(leader)
        for leader in [leader for leader in self._unplaced if leader in self._nodes]:
            self._open_fetcher(self._nodes[leader])

    def _fetcher(self, leader: NodeId) -> ReplicaFetcher | None:
        """The leader's fetcher, made if there is none; None if the leader's address is unknown."""
        if leader in self._idle:
            self._idle.pop(leader).cancel()
        if leader in self._fetchers:
            return self._fetchers[leader]
        node = self._nodes.get(leader)
        if node is None:
            self._unplaced.add(leader)
            return None
        return self._open_fetcher(node)

    def _open_fetcher(self, leader: NodeState) -> ReplicaFetcher:
        self._unplaced.discard(leader.node_id)
        fetcher = ReplicaFetcher(
            leader,
            self._channels,
            identity=self._identity,
            late=self._late,
            retry=self._retry,
            over=self.stop_following,
            on_bug=self._on_bug,
            on_failure=self._on_failure,
            clock=self._clock,
            log=self._log,
            throttle=self._throttle,
            traffic=self._traffic,
            reads_files=self._reads_files,
        )
        for replica, followed in self._followed.values():
            if followed == leader.node_id:
                fetcher.follow(replica, due=replica not in self._late)
        fetcher.start()
        self._fetchers[leader.node_id] = fetcher
        self._end_if_idle_for_long(leader.node_id, fetcher)
        if self._checks is None:
            self._checks = self._tasks.start(self._check(), name="replicate-checks")
        return fetcher

    def _end_idle(self, leader: NodeId) -> None:
        del self._idle[leader]
        if leader in self._fetchers and not len(self._fetchers[leader].session):
            self._end(leader)

    def _end(self, leader: NodeId) -> None:
        """End the leader's stream at once, and then the connection."""
        fetcher = self._fetchers.pop(leader)
        fetcher.stream.stop()
        self._tasks.start(fetcher.close(), name=f"end-replicate-from-{leader}")

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            for fetcher in self._fetchers.values():
                fetcher.check()

    # ---- later ----

    def _retry(self, replica: PartitionReplica) -> None:
        if replica not in self._retries:
            self._retries[replica] = self._loop.call_later(RETRY_S, self._retried, replica)

    def _retried(self, replica: PartitionReplica) -> None:
        del self._retries[replica]
        self._ask_again(replica)

    def _cancel_retry(self, replica: PartitionReplica) -> None:
        timer = self._retries.pop(replica, None)
        if timer is not None:
            timer.cancel()

    def resume(self, replica: PartitionReplica) -> None:
        """Let a replica ask that did not for a while; harmless if it follows nobody."""
        self._ask_again(replica)

    def _ask_again(self, replica: PartitionReplica) -> None:
        if replica in self._late:
            return  # `LateRows` calls again when the disk has caught up.
        followed = self._followed.get((replica.topic_id, replica.partition))
        if followed is None or followed[0] is not replica or followed[1] not in self._fetchers:
            return
        self._fetchers[followed[1]].ask_again(replica)

    async def close(self) -> None:
        """End all streams and follow nothing any more."""
        self._closed = True
        timers: list[asyncio.TimerHandle] = [*self._retries.values(), *self._idle.values()]
        for timer in timers:
            timer.cancel()
        self._retries.clear()
        self._idle.clear()
        self._followed.clear()
        fetchers = list(self._fetchers.values())
        self._fetchers.clear()
        for fetcher in fetchers:
            fetcher.stream.stop()
        await asyncio.gather(*(fetcher.close() for fetcher in fetchers))
        await self._tasks.close(timeout_s=CLOSE_TIMEOUT_S)
