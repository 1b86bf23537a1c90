"""One leader node's Replicate stream: applies its answers to this node's followers."""

import asyncio
from collections.abc import Callable
from typing import Final

from highwater.hop.channels import HopChannels
from highwater.hop.stream import Stream
from highwater.hop.transport import path_of
from highwater.hop.unix_socket import socket_of
from highwater.model.cluster import NodeState
from highwater.model.time import Clock
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.follower.fetch_session import FetchSession
from highwater.partition.replication.follower.following import (
    Outcome,
    UnsoundAnswerError,
    append_from_leader,
)
from highwater.partition.replication.follower.late_rows import LateRows
from highwater.partition.replication.follower.leader_files import LeaderFiles
from highwater.partition.replication.rows import NONE, Answered, SegmentPlace
from highwater.partition.replication.throttle import Side, Throttle
from highwater.partition.replication.traffic import ReplicaTraffic
from highwater.rpc.ports import Message
from highwater.runtime.log_limit import LogLimit
from highwater.runtime.logging import Logger

ANSWER_PATIENCE_MS: Final = 10_000
"""Maximal wait for an answer, which is due after half a second; then the node connects anew.
gRPC's own keepalive takes longer, and a process that hangs still answers it."""


class ReplicaFetcher:
    """Follows one incarnation of one leader node, from `start` to `close`.

    An error concerns only its partition: after a refusal or an unsound answer `retry` is called;
    a bug takes the replica offline and is reported to `on_bug`.
    """

    def __init__(
        self,
        leader: NodeState,
        channels: HopChannels,
        *,
        identity: Callable[[], tuple[int, int]],
        late: LateRows,
        retry: Callable[[PartitionReplica], None],
        over: Callable[[PartitionReplica], None],
        on_bug: Callable[[PartitionReplica, Exception], None],
        on_failure: Callable[[str, BaseException], None],
        clock: Clock,
        log: Logger,
        throttle: Throttle | None = None,
        traffic: ReplicaTraffic | None = None,
        reads_files: bool = False,
    ) -> None:
        """`identity` returns this node's id and its present node epoch.

        `on_failure` gets a bug that is no replica's. `over` is called for a replica that no longer follows; it is not asked for again.
        `throttle` is the node's for followers, `traffic` counts received bytes. With `reads_files`
        records are read from the leader's files if the leader is on this host.
        """
        self.leader = leader
        self._files = LeaderFiles(leader.log_dirs if reads_files else (), leader.incarnation)
        self._throttle = throttle or Throttle(Side.FOLLOWER)
        self._traffic = traffic or ReplicaTraffic()
        self._channels = channels
        self._channel = channels.open(
            leader.address, socket_of(leader.log_dirs, leader.incarnation)
        )
        self.session = FetchSession(self._throttle, accepts_references=self._files.readable)
        self.stream = Stream(
            self._channel,
            path_of("Replicate"),
            next_message=self._next_message,
            received=self._received,
            opened=self._opened,
            broken=self._broken,
            on_bug=self._stream_bug,
        )
        self._identity = identity
        self._late = late
        self._retry = retry
        self._over = over
        self._on_bug = on_bug
        self._on_failure = on_failure
        self._clock = clock
        self._log = log
        self._limit = LogLimit(clock.monotonic_ms)
        self._asked_ms = 0
        self._look: asyncio.TimerHandle | None = None
        """Set while the throttle makes partitions wait."""
        self._broken_before = False
        """Whether the broken connection was logged already."""

    def start(self) -> None:
        """Fetch and append until `close`."""
        self.stream.start()

    async def close(self) -> None:
        """End the stream, then close the channel."""
        self.stream.stop()
        if self._look is not None:
            self._look.cancel()
        self._files.close()
        await self._channels.close(self._channel)

    def follow(self, replica: PartitionReplica, *, due: bool) -> None:
        """Follow a replica from its log's end; `due` is False while its disk is behind."""
        self.session.add(replica, due=due)
        self.stream.wake()

    def stop_following(self, replica: PartitionReplica) -> None:
        """Stop following the replica; harmless if it was not followed."""
        self.session.remove(replica)

    def ask_again(self, replica: PartitionReplica) -> None:
        """Ask again for a held replica; any other state stays as it is."""
        self.session.ask_again(replica)
        self.stream.wake()

    def check(self) -> None:
        """Reset a connection that brings no answer; called about once a second."""
        self._files.drop_deleted()
        waited_ms = self._clock.monotonic_ms() - self._asked_ms
        if self.session.waits and waited_ms > ANSWER_PATIENCE_MS:
            self._log.warning("leader_silent", leader=self.leader.node_id, waited_ms=waited_ms)
            self._asked_ms += waited_ms
            self.stream.reset()

    # ---- the stream ----

    def _next_message(self) -> bytes | None:
        now_ms = self._clock.monotonic_ms()
        message = self.session.next_request(*self._identity(), now_ms)
        if message is not None:
            self._asked_ms = now_ms
        elif self._look is None and (until_ms := self.session.throttled_until_ms) is not None:
            wait_s = max(until_ms - now_ms, 1) / 1000
            self._look = asyncio.get_running_loop().call_later(wait_s, self._look_again)
        return message

    def _look_again(self) -> None:
        self._look = None
        self.stream.wake()

    def _stream_bug(self, error: Exception) -> None:
        self._on_failure(f"replicate-from-{self.leader.node_id}", error)

    def _opened(self) -> None:
        self._broken_before = False

    def _broken(self, reason: str) -> None:
        self.session.begin()
        for replica in list(self.session.replicas()):
            # Normally an answer says that another node leads now; here none may ever come.
            if not replica.core.may_fetch(replica.leader_epoch):
                self._over(replica)
        if not self._broken_before:
            self._broken_before = True
            self._log.info("leader_stream_broken", leader=self.leader.node_id, reason=reason)

    def _received(self, message: Message) -> None:
        nbytes = from_files = 0
        for answered in self.session.answered(message):
            # One at a time: applying an answer may replace the replica that the next one is for.
            replica = self.session.take(answered)
            if replica is None:
                continue
            size = len(answered.records)
            nbytes += size
            if self._throttle.partitions and size and self.session.catches_up(answered[:2]):
                self._throttle.passed(self._clock.monotonic_ms(), size)
            if type(answered.records) is not SegmentPlace:
                self._carry_out(replica, answered)
            elif self._read(replica, answered, answered.records):
                from_files += size
            else:
                nbytes -= size
        if nbytes:
            self._traffic.received(self.leader.node_id, nbytes, from_files)
        self.stream.wake()

    def _read(self, replica: PartitionReplica, answered: Answered, place: SegmentPlace) -> bool:
        """Apply an answer whose records are in a file; False if the file does not have them."""
        records = self._files.read(place)
        if records is None:
            self._traffic.missed_places += 1
            self.session.ask_for_bytes(replica)
            return False
        self._carry_out(replica, answered._replace(records=records), place.last_epoch)
        return True

    def _carry_out(
        self, replica: PartitionReplica, answered: Answered, last_epoch: int = NONE
    ) -> None:
        try:
            outcome = append_from_leader(replica, answered, self._late, last_epoch)
        except UnsoundAnswerError as error:
            self._limit.write(
                self._log.warning,
                "unsound_answer",
                leader=self.leader.node_id,
                topic=replica.topic_name,
                partition=replica.partition,
                error=str(error),
            )
            outcome = Outcome.REFUSED
        except Exception as error:  # noqa: BLE001 - one partition's bug, not the node's.
            replica.fail()
            self._on_bug(replica, error)
            outcome = Outcome.OVER
        if outcome is Outcome.DONE:
            self.session.ask_again(replica)
        elif outcome is Outcome.STALE:
            self._traffic.missed_places += 1
            self.session.ask_for_bytes(replica)
        elif outcome is Outcome.REFUSED:
            self._retry(replica)
        elif outcome is Outcome.OVER:
            self._over(replica)
