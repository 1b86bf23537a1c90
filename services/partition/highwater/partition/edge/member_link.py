"""A gateway's link to the node in its process, in a cluster of several nodes.

Like `LocalLink` it copies nothing. But the node may be fenced, lose its leaderships or hang while its
gateway goes on, so what waits here ends as over gRPC: appends go to the next leader, fetches, questions
for offsets and coordinator calls are answered so that clients look for it.
"""

import asyncio
from collections.abc import Callable

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.append import AppendOwner
from highwater.hop.coordinator import CoordinatorCall, CoordinatorPort
from highwater.hop.fetch import FetchWork, answer_away
from highwater.hop.ports import ENDED_IN_STEP
from highwater.kafka.error_codes import ErrorCode
from highwater.model.errors import UnreachableError
from highwater.model.steps import Steps, finish
from highwater.partition.data_plane.plane import DataPlane
from highwater.partition.edge.local_appends import LocalAppends
from highwater.partition.edge.local_link import LocalLink


class LocalMemberLink:
    """See the module. Lives as long as its gateway, which closes it before the node stops."""

    def __init__(
        self,
        local: LocalLink,
        *,
        plane: DataPlane,
        coordinator: CoordinatorPort,
        schedule: Callable[[Callable[[], None]], object],
        append_owner: AppendOwner,
    ) -> None:
        """`local` answers queries and fetches. `append_owner` is that of all groups of appends."""
        self.node_id = local.node_id
        self._local = local
        self._appends = LocalAppends(plane.append, schedule=schedule, owner=append_owner)
        self._coordinator = coordinator
        self._fetches: dict[FetchWork, Callable[[FetchWork], None]] = {}
        """Waiting fetches, with what answers them."""
        self._calls: dict[CoordinatorCall, CoordinatorCall] = {}
        """What the coordinator got in place of each waiting call."""
        self._questions: set[asyncio.Timeout] = set()
        """The limits of questions for offsets, which may wait for a disk."""
        self._fenced = False
        self._closed = False
        self.append = self._appends.gatherer.append
        self.append_group = self._appends.gatherer.append_group
        self.appends_under_way = self._appends.under_way
        self.recall_appends = self._appends.recall
        self.end_fetch_set = local.end_fetch_set
        self.offsets_for_leader_epoch = local.offsets_for_leader_epoch
        self.describe_producers = local.describe_producers
        self.delete_records = local.delete_records
        self.write_txn_markers = local.write_txn_markers
        self.describe_log_dirs = local.describe_log_dirs
        self.alter_log_dirs = local.alter_log_dirs
        self.describe_loggers = local.describe_loggers
        self.alter_loggers = local.alter_loggers

    @property
    def takes_appends(self) -> bool:
        """True until the link is closed."""
        return not self._closed

    def expire(self, now_ms: int) -> None:
        """Answers appends whose deadline has passed; called a few times a second."""
        self._appends.expire(now_ms)

    def set_fenced(self, fenced: bool) -> None:
        """While the node is fenced, new fetches and calls are answered at once, and questions end;
        `ending_waits` ends the others. The gateway's `HeldProduce` looks after appends.
        """
        if fenced and not self._fenced:
            now_s = asyncio.get_running_loop().time()
            questions, self._questions = self._questions, set()  # Each can be ended once.
            for limit in questions:
                limit.reschedule(now_s)
        self._fenced = fenced

    async def close(self) -> None:
        """Ends the link; all requests that wait are answered."""
        self._closed = self._fenced = True
        finish(self.ending_waits())
        self._appends.fail_all("the partition node stops")

    # ---- fetches ----

    def fetch(self, work: FetchWork) -> None:
        """Starts a fetch; a fenced node's is answered at once."""
        if self._fenced:
            answer_away(work)
            return
        done = work.done
        work.done = self._fetched
        self._fetches[work] = done
        self._local.fetch(work)

    def cancel_fetch(self, work: FetchWork) -> None:
        """Forgets a fetch whose client has disconnected."""
        self._fetches.pop(work, None)
        self._local.cancel_fetch(work)

    def _fetched(self, work: FetchWork) -> None:
        self._fetches.pop(work)(work)

    # ---- questions for offsets ----

    async def list_offsets(
        self, request: pb.ListOffsetsRequest, timeout_s: float
    ) -> pb.ListOffsetsResponse:
        """Answers in the order of the request; raises UnreachableError, also when the node is fenced."""
        fencing = asyncio.timeout(None)
        self._questions.add(fencing)
        try:
            async with fencing:
                return await self._local.list_offsets(request, timeout_s)
        except TimeoutError:
            raise UnreachableError(f"node {self.node_id} was fenced") from None
        finally:
            self._questions.discard(fencing)

    # ---- coordinator calls ----

    def submit(self, call: CoordinatorCall) -> None:
        """Sends a coordinator call; a fenced node's is answered at once."""
        if self._fenced:
            call.reply(ErrorCode.COORDINATOR_NOT_AVAILABLE, b"")
            return

        def reply(error_code: int, body: bytes) -> None:
            if self._calls.pop(call, None) is not None:
                call.reply(error_code, body)

        given = self._calls[call] = CoordinatorCall(
            api_key=call.api_key,
            api_version=call.api_version,
            instance=call.instance,
            client_id=call.client_id,
            client_host=call.client_host,
            body=call.body,
            partition=call.partition,
            deadline_ms=call.deadline_ms,
            reply=reply,
        )
        given.view = call.view
        self._coordinator.submit(given)

    def cancel(self, call: CoordinatorCall) -> None:
        """Forgets a coordinator call whose client has disconnected."""
        call.cancelled = True
        given = self._calls.pop(call, None)
        if given is not None:
            self._coordinator.cancel(given)

    # ---- the end of waits ----

    def ending_waits(self) -> Steps[None]:
        """Answers the fetches and calls that wait for a fenced node, in steps.

        Between these, others may be answered, and clients may go: those are not here any more then.
        """
        if not self._fenced:
            return
        ended = 0
        for work in list(self._fetches):
            done = self._fetches.pop(work, None)
            if done is not None:
                self._local.cancel_fetch(work)
                work.cancelled = False  # The node has forgotten it; its client still waits.
                work.done = done
                answer_away(work)
                ended += 1
                if ended % ENDED_IN_STEP == 0:
                    yield
        for call in list(self._calls):
            given = self._calls.pop(call, None)
            if given is not None:
                self._coordinator.cancel(given)
                call.reply(ErrorCode.COORDINATOR_NOT_AVAILABLE, b"")
                ended += 1
                if ended % ENDED_IN_STEP == 0:
                    yield
