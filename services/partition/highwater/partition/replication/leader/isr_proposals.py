"""AlterPartition of a node: its leaders' proposals, gathered into one call at a time (KIP-497).

Proposals of a loop turn, and those that come while a call is under way, share the next one. A
request is never sent twice: a repeated one that won would be refused for what it did itself, and
its leader would take the refusal for the truth. So any failure of a call means that nobody knows
what became of it (`IsrUnanswered`), and the replica settles that with its next proposal.

What failed comes again after a pause: `LagChecked`, which proposes anew who is to leave, then
`IsrDue`, which proposes who is to join, if the replica still asks for it (`core.isr_due`).
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
"""Of one call: about 100 KB, and a transaction that the store takes."""

CALL_TIMEOUT_S: Final = 5.0
"""A controller that commits takes milliseconds; one that is gone is noticed by this."""

PAUSES_MS: Final = (100, 200, 500)
"""After calls that failed one after the other; the last one repeats."""

REFUSED_PAUSES_MS: Final = (200, 400, 800, 1_600)
"""Of a replica whose proposals were refused one after the other; the last one repeats. The reason is
as a rule an image under way; a follower that the controller does not admit may last."""

BugReport = Callable[[PartitionReplica, Exception], None]


class IsrClient(Protocol):
    """What is needed of a `ControllerClient`."""

    async def alter_partition(
        self, request: pb.AlterPartitionRequest, *, timeout_s: float
    ) -> pb.AlterPartitionResponse:
        """One attempt. Raises HighwaterError."""
        ...


class _Waiting(NamedTuple):
    replica: PartitionReplica
    proposal: ProposeIsr
    before: frozenset[int]
    """The ISR that it is to change."""


class IsrProposals:
    """See the module. On the node's loop; `run` is its one task, for as long as the node leads."""

    def __init__(
        self,
        client: IsrClient,
        *,
        identity: Callable[[], tuple[int, int]],
        clock: Clock,
        log: Logger,
        on_bug: BugReport,
    ) -> None:
        """`identity` gives the node's id and epoch. `on_bug` hears of replicas that raise."""
        self._client = client
        self._identity = identity
        self._clock = clock
        self._log = log
        self._on_bug = on_bug
        self.shrinks = 0
        """ISRs that the controller let get smaller, since the start."""
        self.expands = 0
        """And larger."""
        self._waiting: deque[_Waiting] = deque()
        """At most one per replica and change of its record: it has one attempt under way."""
        self._again_ms: dict[PartitionReplica, int] = {}
        """After a failed attempt, when the replica may try again."""
        self._refusals: dict[PartitionReplica, int] = {}
        """Refusals since a proposal was committed, of leaders here."""
        self._failures = 0
        """Calls that failed since one was answered."""
        self._quiet_until_ms = 0
        self._wake = asyncio.Event()

    def propose_isr(self, replica: PartitionReplica, proposal: ProposeIsr) -> None:
        """Queues a proposal; it ends in `replica.handle`, never at once (ReplicationPort)."""
        before = frozenset(replica.core.isr.committed)
        self._waiting.append(_Waiting(replica, proposal, before))
        self._wake.set()

    async def run(self) -> None:
        """Sends until cancelled. A call that is under way then has no end."""
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
        """The next call's proposals, in order; those that were overtaken end here."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._quiet_until_ms:
            return []
        taken: list[_Waiting] = []
        kept: list[_Waiting] = []
        while self._waiting and len(taken) < PROPOSALS_MAX:
            one = self._waiting.popleft()
            pending = one.replica.core.isr.pending if one.replica.leading else NO_ATTEMPT
            if pending != one.proposal.attempt:
                # Of a log that has failed, too: its leader must not be left alone in the ISR.
                self._end(one.replica, on.IsrUnanswered(attempt=one.proposal.attempt))
            elif one.replica in self._again_ms:
                kept.append(one)
            else:
                taken.append(one)
        self._waiting.extendleft(reversed(kept))
        return taken

    def _try_again(self) -> None:
        """Pauses that are over."""
        now_ms = self._clock.monotonic_ms()
        over = [replica for replica, due_ms in self._again_ms.items() if due_ms <= now_ms]
        for replica in over:
            del self._again_ms[replica]
            if replica.core.isr_due:
                self._tell(replica, on.LagChecked(now_ms=now_ms))
            if replica.core.isr_due:
                self._tell(replica, on.IsrDue())

    async def _pause(self) -> None:
        """Until something is proposed, or a pause is over."""
        now_ms = self._clock.monotonic_ms()
        due = list(self._again_ms.values())
        if self._waiting and self._quiet_until_ms > now_ms:
            # Otherwise only replicas in a pause of their own wait.
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
        """The one end of a proposal; more may be due at once, or after the replica's pause."""
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
