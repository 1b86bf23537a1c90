"""One leader node's Replicate stream, and what its answers do to this node's followers."""

from collections.abc import Callable
from typing import Final

import grpc.aio

from highwater.hop.stream import Stream
from highwater.model.cluster import NodeState
from highwater.model.time import Clock
from highwater.partition.data_plane.following import (
    Outcome,
    UnsoundAnswerError,
    append_from_leader,
)
from highwater.partition.data_plane.late_rows import LateRows
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.fetch_session import FetchSession
from highwater.partition.replication.rows import Answered
from highwater.runtime.log_limit import LogLimit
from highwater.runtime.logging import Logger

METHOD: Final = "/highwater.api.partition.v1.PartitionService/Replicate"
ANSWER_PATIENCE_MS: Final = 10_000
"""For an answer that is due after half a second; then another connection is tried. gRPC's own
probes take longer, and a process that hangs answers them."""


class ReplicaFetcher:
    """Follows one incarnation of one node, from `run` until that is cancelled.

    A partition's trouble is its own: a refusal or an unsound answer is `retry`'s, a bug takes the
    replica offline and is told to `on_bug`.
    """

    def __init__(
        self,
        leader: NodeState,
        channel: grpc.aio.Channel,
        *,
        identity: Callable[[], tuple[int, int]],
        late: LateRows,
        retry: Callable[[PartitionReplica], None],
        over: Callable[[PartitionReplica], None],
        on_bug: Callable[[PartitionReplica, Exception], None],
        clock: Clock,
        log: Logger,
    ) -> None:
        """`identity` gives this node's id and its node epoch at the time.

        `over` hears of a replica that does not follow any more, which is not asked for again.
        """
        self.leader = leader
        self.session = FetchSession()
        self.stream = Stream(
            channel,
            METHOD,
            next_message=self._next_message,
            received=self._received,
            opened=self._opened,
            broken=self._broken,
        )
        self._channel = channel
        self._identity = identity
        self._late = late
        self._retry = retry
        self._over = over
        self._on_bug = on_bug
        self._clock = clock
        self._log = log
        self._limit = LogLimit(clock.monotonic_ms)
        self._asked_ms = 0
        self._broken_before = False
        """Told already that there is no connection."""

    async def run(self) -> None:
        """Asks and appends until cancelled; the channel is closed then."""
        try:
            await self.stream.run()
        finally:
            await self._channel.close(None)

    def follow(self, replica: PartitionReplica, *, due: bool) -> None:
        """Follows a replica from its present place; `due` is False while its log is behind."""
        self.session.add(replica, due=due)
        self.stream.wake()

    def stop_following(self, replica: PartitionReplica) -> None:
        """Follows it no longer; harmless if it was not."""
        self.session.remove(replica)

    def ask_again(self, replica: PartitionReplica) -> None:
        """Asks for a replica that was held; changes nothing for others."""
        self.session.ask_again(replica)
        self.stream.wake()

    def check(self) -> None:
        """Breaks a connection on which no answer comes; called about once a second."""
        waited_ms = self._clock.monotonic_ms() - self._asked_ms
        if self.session.waits and waited_ms > ANSWER_PATIENCE_MS:
            self._log.warning("leader_silent", leader=self.leader.node_id, waited_ms=waited_ms)
            self._asked_ms += waited_ms
            self.stream.reset()

    # ---- the stream ----

    def _next_message(self) -> bytes | None:
        message = self.session.next_request(*self._identity())
        if message is not None:
            self._asked_ms = self._clock.monotonic_ms()
        return message

    def _opened(self) -> None:
        self._broken_before = False

    def _broken(self, reason: str) -> None:
        self.session.begin()
        for replica in list(self.session.replicas()):
            # Who leads by now would be found out by an answer, and none may ever come.
            if not replica.core.may_fetch(replica.leader_epoch):
                self._over(replica)
        if not self._broken_before:
            self._broken_before = True
            self._log.info("leader_stream_broken", leader=self.leader.node_id, reason=reason)

    def _received(self, message: bytes) -> None:
        for answered in self.session.answered(message):
            # One by one: what an answer does may change whom the next is for.
            replica = self.session.take(answered)
            if replica is not None:
                self._carry_out(replica, answered)
        self.stream.wake()

    def _carry_out(self, replica: PartitionReplica, answered: Answered) -> None:
        try:
            outcome = append_from_leader(replica, answered, self._late)
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
        elif outcome is Outcome.REFUSED:
            self._retry(replica)
        elif outcome is Outcome.OVER:
            self._over(replica)
