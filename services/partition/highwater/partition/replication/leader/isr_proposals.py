"""AlterPartition of a node: its leaders' proposals, many in a call, one call at a time (KIP-497).

Proposals of one loop turn, and those that come during a call, share the next call. A request is
never sent twice: if the first attempt had won, the second would be refused because of it, and the
leader would take that refusal for the result. So after a failed call the result is unknown
(`IsrUnanswered`), and the replica's next proposal settles it.

A failed proposal comes again after a pause if the replica still asks for it (`core.isr_due`):
`LagChecked` proposes anew which followers leave, then `IsrDue` which ones join.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.model.errors import HighwaterError
from highwater.model.time import Clock
from highwater.partition.core import replica_events as on
from highwater.partition.core.isr import NO_ATTEMPT
from highwater.partition.core.replica_effects import ProposeIsr
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.runtime.logging import Logger

PROPOSALS_MAX: Final = 1_000
"""Limit of one call: about 100 KB, and a transaction that the metadata store accepts."""

CALL_TIMEOUT_S: Final = 5.0
"""An active controller commits within milliseconds; this limit notices one that is gone."""

PAUSES_MS: Final = (100, 200, 500)
"""Pauses after consecutive failed calls; the last one repeats."""

REFUSED_PAUSES_MS: Final = (200, 400, 800, 1_600)
"""Pauses after consecutive refusals of one replica's proposals; the last one repeats. Mostly the
cause is an image under way; but the controller may refuse a follower for long."""

BugReport = Callable[[PartitionReplica, Exception], None]


class IsrClient(Protocol):
    """The method of `ControllerClient` that is used here."""

    async def alter_partition(
        self, request: pb.AlterPartitionRequest, *, timeout_s: float
    ) -> pb.AlterPartitionResponse:
        """Make one attempt. Raises HighwaterError."""
        ...


class _Waiting(NamedTuple):
    replica: PartitionReplica
    proposal: ProposeIsr
    before: frozenset[int]
    """The ISR before the proposal."""


class IsrProposals:
    """See the module. On the node's loop; `run` is its only task, as long as the node runs."""

    def __init__(
        self,
        client: IsrClient,
        *,
        identity: Callable[[], tuple[int, int]],
        clock: Clock,
        log: Logger,
        on_bug: BugReport,
    ) -> None:
        """`identity` returns the node's id and epoch. `on_bug` gets a replica that raised."""
        self._client = client
        self._identity = identity
        self._clock = clock
        self._log = log
        self._on_bug = on_bug
        self.shrinks = 0
        """ISRs that the controller made smaller, since the start."""
        self.expands = 0
        """ISRs that it made larger."""
        self._waiting: deque[_Waiting] = deque()
        """At most one per replica and change of its record: a replica has one attempt under way."""
        self._again_ms: dict[PartitionReplica, int] = {}
        """Replica -> when it may try again after a failed attempt."""
        self._refusals: dict[PartitionReplica, int] = {}
        """Leaders here -> refusals since their last committed proposal."""
        self._failures = 0
        """Failed calls since the last answered one."""
        self._quiet_until_ms = 0
        self._wake = asyncio.Event()

    def propose_isr(self, replica: PartitionReplica, proposal: ProposeIsr) -> None:
        """Queue a proposal; its result comes by `replica.handle`, never at once."""
        before = frozenset(replica.core.isr.committed)
        self._waiting.append(_Waiting(replica, proposal, before))
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled. A call that is then under way gets no result."""
        while True:
            self._wake.clear()
            self._try_again()
            batch = self._take()
            if batch:
                await self._send(batch)
            else:
                await self._pause()

    # ---- sending ----

    def _take(self) -> list[_Waiting]:
        """The proposals of the next call, in order; outdated ones end here."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._quiet_until_ms:
            return []
        taken: list[_Waiting] = []
        kept: list[_Waiting] = []
        while self._waiting and len(taken) < PROPOSALS_MAX:
            one = self._waiting.popleft()
            pending = one.replica.core.isr.pending if one.replica.leading else NO_ATTEMPT
            if pending != one.proposal.attempt:
                # Also if its log has failed: then the leader must not stay alone in the ISR.
                self._end(one.replica, on.IsrUnanswered(attempt=one.proposal.attempt))
            elif one.replica in self._again_ms:
                kept.append(one)
            else:
                taken.append(one)
        self._waiting.extendleft(reversed(kept))
        return taken

    def _try_again(self) -> None:
        """Let replicas whose pause is over propose again."""
        now_ms = self._clock.monotonic_ms()
        over = [replica for replica, due_ms in self._again_ms.items() if due_ms <= now_ms]
        for replica in over:
            del self._again_ms[replica]
            if replica.core.isr_due:
                self._tell(replica, on.LagChecked(now_ms=now_ms))
            if replica.core.isr_due:
                self._tell(replica, on.IsrDue())

    async def _pause(self) -> None:
        """Wait until something is proposed, or a pause is over."""
        now_ms = self._clock.monotonic_ms()
        due = list(self._again_ms.values())
        if self._waiting and self._quiet_until_ms > now_ms:
            # Otherwise each waiting proposal is of a replica with a pause of its own.
            due.append(self._quiet_until_ms)
        wait_s = max(min(due) - now_ms, 1) / 1000 if due else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake.wait()

    async def _send(self, batch: list[_Waiting]) -> None:
        node_id, node_epoch = self._identity()
        request = pb.AlterPartitionRequest(
            node_id=node_id,
            node_epoch=node_epoch,
            proposals=[_to_pb(one.replica, one.proposal) for one in batch],
        )
        try:
            response = await self._client.alter_partition(request, timeout_s=CALL_TIMEOUT_S)
        except HighwaterError as error:
            self._unanswered(batch, str(error))
            return
        if len(response.results) != len(batch):
            self._unanswered(batch, f"{len(response.results)} answers to {len(batch)} proposals")
            return
        self._failures = 0
        for one, result in zip(batch, response.results, strict=True):
            if not result.error.error_code:
                self.shrinks += bool(one.before.difference(one.proposal.isr))
                self.expands += bool(frozenset(one.proposal.isr) - one.before)
            self._answered(one.replica, one.proposal, result)

    # ---- answers ----

    def _answered(
        self, replica: PartitionReplica, proposal: ProposeIsr, result: pb.AlterPartitionResult
    ) -> None:
        code = result.error.error_code
        if code:
            self._log.info(
                "isr_refused",
                topic=replica.topic_name,
                partition=replica.partition,
                isr=proposal.isr,
                error_code=code,
                error=result.error.message,
            )
            refusals = self._refusals.get(replica, 0)
            pause_ms = REFUSED_PAUSES_MS[min(refusals, len(REFUSED_PAUSES_MS) - 1)]
            self._refusals[replica] = refusals + 1
            self._again_ms[replica] = self._clock.monotonic_ms() + pause_ms
        else:
            self._refusals.pop(replica, None)
        state = result.state if result.HasField("state") else None
        self._end(
            replica,
            on.IsrAnswered(attempt=proposal.attempt, error_code=code)
            if state is None
            else on.IsrAnswered(
                attempt=proposal.attempt,
                error_code=code,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                isr=tuple(state.isr),
            ),
        )

    def _unanswered(self, batch: Iterable[_Waiting], error: str) -> None:
        pause_ms = PAUSES_MS[min(self._failures, len(PAUSES_MS) - 1)]
        self._failures += 1
        self._quiet_until_ms = self._clock.monotonic_ms() + pause_ms
        self._log.warning("isr_proposals_unanswered", error=error, pause_ms=pause_ms)
        for replica, proposal, _ in batch:
            self._again_ms[replica] = self._quiet_until_ms
            self._end(replica, on.IsrUnanswered(attempt=proposal.attempt))

    def _end(self, replica: PartitionReplica, event: on.IsrAnswered | on.IsrUnanswered) -> None:
        """End a proposal; the replica may propose again at once, or after its pause."""
        self._tell(replica, event)
        if not replica.leading:
            self._refusals.pop(replica, None)
        if replica.core.isr_due:
            self._again_ms.setdefault(replica, self._clock.monotonic_ms())

    def _tell(self, replica: PartitionReplica, event: on.Event) -> None:
        try:
            replica.handle(event)
        except Exception as error:  # noqa: BLE001 - one partition's bug, not the node's.
            replica.fail()
            self._on_bug(replica, error)


def _to_pb(replica: PartitionReplica, proposal: ProposeIsr) -> pb.IsrProposal:
    return pb.IsrProposal(
        topic_id=replica.topic_id,
        partition=replica.partition,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
        isr=proposal.isr,
        isr_node_epochs=proposal.node_epochs,
    )
