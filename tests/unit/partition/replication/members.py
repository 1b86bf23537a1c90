"""Nodes that replicate one partition among themselves: real replicas, sessions and codec.

Only the transport is the test's, and the controller: it commits every ISR that is proposed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from highwater.hop.channels import HopChannels
from highwater.model.cluster import ClusterImage, NodeState
from highwater.model.ids import NodeId
from highwater.partition.core import invariants
from highwater.partition.core.replica_effects import ProposeIsr
from highwater.partition.core.replica_events import IsrAnswered, PartitionChanged
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.data_plane.replica_role import ReplicaRole
from highwater.partition.replication.codec import FollowerRequest
from highwater.partition.replication.follower.fetchers import ReplicaFetchers
from highwater.partition.replication.leader.leader_session import LeaderSession
from highwater.partition.replication.leader.segment_bytes import read_slice
from highwater.partition.replication.traffic import ReplicaTraffic
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from highwater.runtime.logging import silent_logger
from tests.unit.hop.sinks import TOPIC, Sink, group_of
from tests.unit.partition.data_plane.node import Node, stored
from tests.unit.partition.replication.channel import Call, Channel, until

INCARNATION = "all-of-them"
"""The logs of all nodes lie in one directory."""


class Member(Node):
    """One node; its port is real fetchers and the partition's controller."""

    def __init__(self, partition: Partition, node: int, directory: Path) -> None:
        super().__init__(directory)
        loop = asyncio.get_running_loop()
        self.plane._call_later = loop.call_later
        self.partition = partition
        self.node = node
        self.failures: list[BaseException] = []
        self.checks = 0
        """How often the replica's invariants were checked."""
        self.sessions: dict[Call, LeaderSession] = {}
        self.traffic = ReplicaTraffic()
        self.fetchers = ReplicaFetchers(
            identity=lambda: (node, 100 + node),
            flush=lambda log, done: loop.call_soon(lambda: (log.durability.flush(), done())),
            on_bug=lambda _replica, error: self.bugs.append(error),
            on_failure=lambda _name, error: self.failures.append(error),
            clock=self.clock,
            log=silent_logger(),
            channels=HopChannels(partition.channel),  # type: ignore[arg-type]
            traffic=self.traffic,
            reads_files=partition.files,
        )
        self.follow = self.fetchers.follow
        self.stop_following = self.fetchers.stop_following
        self.replica = self._make()
        self.log = self.replica.log

    def _make(self) -> PartitionReplica:
        log = PartitionLog.open(
            self.directory,
            topic="orders",
            partition=0,
            config=self.partition.config,
            clock=self.clock,
            environment=InlineEnvironment(),
        )
        replica = PartitionReplica(
            topic_id=TOPIC,
            topic_name="orders",
            partition=0,
            log=log,
            log_dir=0,
            policy=AppendPolicy(),
            clock=self.clock,
            on_log_failure=self._log_failed,
            node=self.node,
            node_epoch=100 + self.node,
            lag_ms_max=self.partition.lag_ms_max,
            port=self,
        )
        replica.listeners = (*replica.listeners, self._check)
        self.plane.replicas[TOPIC, 0] = replica
        return replica

    def _check(self, replica: ReplicaRole) -> None:
        """After every event of the real shell. Nothing here is flushed later, else a follower might
        be ahead of what its leader counts, and R5 would not hold in this form.
        """
        self.checks += 1
        try:
            invariants.check(replica.core)
            invariants.check_epochs(replica.core)
            assert replica.high_watermark == replica.core.high_watermark
        except AssertionError as error:
            self.bugs.append(error)  # A listener may not raise.

    def propose_isr(self, replica: PartitionReplica, proposal: ProposeIsr) -> None:
        asyncio.get_running_loop().call_soon(self.partition.commit_isr, self, proposal)

    def serve(self, call: Call, request: FollowerRequest) -> None:
        """A follower's request on one of its connections."""
        session = self.sessions.get(call)
        if session is None:
            loop = asyncio.get_running_loop()
            session = self.sessions[call] = LeaderSession(
                self.plane.replicas,
                now_ms=lambda: int(loop.time() * 1000),
                call_later=loop.call_later,
                call_soon=loop.call_soon,
                read_bytes=read_slice,
                unreadable=self.plane.unreadable,
                answer=call.answer,
                broken=self.bugs.append,
            )
        session.receive(request)

    def restart(self) -> None:
        """The process ends without warning and starts again; what it wrote is still there."""
        self.cut()
        self.replica.retire()
        self.log.close(clean=False)
        self.replica = self._make()
        self.log = self.replica.log

    def cut(self) -> None:
        """Ends every connection to this node."""
        for call, session in self.sessions.items():
            session.close()
            call.end()
        self.sessions.clear()

    async def close(self) -> None:
        await self.fetchers.close()
        for session in self.sessions.values():
            session.close()
        self.log.close(clean=False)


class Partition:
    """One partition on nodes 1 to n, and its record at the controller."""

    def __init__(
        self,
        directory: Path,
        nodes: int = 2,
        *,
        lag_ms_max: int = 10_000,
        files: bool = False,
        **config: int,
    ) -> None:
        """`files`: the nodes are on one host, and followers read from each other's files."""
        self.files = files
        (directory / ".highwater_incarnation").write_text(INCARNATION)
        self.config = LogConfig(**config)
        self.lag_ms_max = lag_ms_max
        self.epoch = 0
        self.partition_epoch = 0
        self.leader = -1
        self.isr: tuple[int, ...] = ()
        self.min_isr = 1
        self.reachable = set(range(1, nodes + 1))
        self._channels: list[tuple[int, Channel]] = []
        self.members: dict[int, Member] = {}
        for node in self.reachable:
            self.members[node] = Member(self, node, directory / f"node-{node}")
        image = ClusterImage(
            revision=1,
            cluster_id="test",
            nodes={NodeId(n): _state(n, directory) for n in self.members},
        )
        for member in self.members.values():
            member.fetchers.image_changed(image)

    def __getitem__(self, node: int) -> Member:
        return self.members[node]

    async def close(self) -> None:
        for member in self.members.values():
            await member.close()
            assert member.bugs == []
            assert member.failures == []

    # ---- transport ----

    def channel(self, address: str, _socket: object) -> Channel:
        node = int(address)
        channel = Channel(address)
        channel.connects = node in self.reachable
        channel.on_request = self.members[node].serve
        self._channels.append((node, channel))
        return channel

    def isolate(self, node: int) -> None:
        """Cuts the node's connections."""
        self.reachable.discard(node)
        self._connect()
        self.members[node].cut()

    def heal(self, node: int) -> None:
        self.reachable.add(node)
        self._connect()

    def _connect(self) -> None:
        for node, channel in self._channels:
            channel.connects = node in self.reachable

    # ---- controller ----

    def elect(
        self, leader: int, isr: Sequence[int] | None = None, *, tell: Sequence[int] | None = None
    ) -> None:
        """Begins the next epoch; `tell` are the nodes that learn of it now."""
        self.epoch += 1
        self.partition_epoch += 1
        self.leader = leader
        self.isr = tuple(isr if isr is not None else self.members)
        self.publish(tell)

    def publish(self, tell: Sequence[int] | None = None) -> None:
        for node in tell if tell is not None else self.members:
            self.members[node].replica.handle(
                PartitionChanged(
                    now_ms=int(asyncio.get_running_loop().time() * 1000),
                    leader=self.leader,
                    leader_epoch=self.epoch,
                    partition_epoch=self.partition_epoch,
                    replicas=tuple(self.members),
                    isr=self.isr,
                    min_isr=self.min_isr,
                )
            )

    def commit_isr(self, member: Member, proposal: ProposeIsr) -> None:
        """AlterPartition."""
        code = 0
        if (proposal.leader_epoch, proposal.partition_epoch) == (self.epoch, self.partition_epoch):
            self.partition_epoch += 1
            self.isr = proposal.isr
        else:
            code = 74  # FENCED_LEADER_EPOCH
        member.replica.handle(
            IsrAnswered(
                attempt=proposal.attempt,
                error_code=code,
                leader_epoch=self.epoch,
                partition_epoch=self.partition_epoch,
                isr=self.isr,
            )
        )

    # ---- clients ----

    def append(self, *batches: bytes, acks: int = -1, node: int | None = None) -> Sink:
        """To the present leader in the present epoch by default."""
        member = self.members[self.leader if node is None else node]
        sink = Sink()
        epoch = member.replica.leader_epoch
        member.plane.append([group_of(*batches, sink=sink, epoch=epoch, acks=acks)])
        return sink

    def same(self) -> bool:
        """Whether all logs and their high watermarks are equal."""
        first, *others = self.members.values()
        return all(
            stored(other.replica) == stored(first.replica)
            and _epochs(other) == _epochs(first)
            and list(other.log.producers.states.entries())
            == list(first.log.producers.states.entries())
            and other.replica.high_watermark == first.replica.high_watermark
            for other in others
        )

    async def converged(self) -> None:
        await until(self.same)


def _epochs(member: Member) -> list[tuple[int, int]]:
    """Without epochs that have no records: a follower does not learn of them."""
    end = member.log.log_end_offset
    return [(epoch, start) for epoch, start in member.log.epochs.cache.entries() if start < end]


def _state(node: int, directory: Path) -> NodeState:
    return NodeState(
        node_id=NodeId(node),
        node_epoch=100 + node,
        address=str(node),
        rack="",
        incarnation=INCARNATION,
        log_dirs=(str(directory),),
        fenced=False,
    )
