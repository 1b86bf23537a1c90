"""ISR proposals: gathered, one call at a time, one outcome each, retried after a pause."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from highwater.api.controller.v1 import cluster_pb2
from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.metadata.controller_client import ControllerClient
from highwater.model.errors import UnreachableError
from highwater.model.ids import TopicId
from highwater.partition.core import replica_events as on
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.data_plane.replication_port import Alone
from highwater.partition.replication.leader import isr_proposals
from highwater.partition.replication.leader.isr_proposals import IsrProposals
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from highwater.runtime.logging import silent_logger
from tests.support.fake_controllers import fake_cluster, not_controller, unavailable
from tests.support.log_batches import ManualClock
from tests.unit.partition.data_plane.roles import NODE, follower_fetched, image_says

TOPIC = TopicId(b"t" * 16)
EPOCH = 3
NODE_EPOCH = 40

Answer = Callable[[pb.AlterPartitionRequest], Any]


def committed(request: pb.AlterPartitionRequest) -> pb.AlterPartitionResponse:
    """The answer of a controller that agrees."""
    return pb.AlterPartitionResponse(
        results=[
            pb.AlterPartitionResult(
                error=pb.ApiError(),
                state=cluster_pb2.PartitionState(
                    leader=NODE,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch + 1,
                    isr=proposal.isr,
                ),
            )
            for proposal in request.proposals
        ]
    )


def refused(code: int) -> Answer:
    def answer(request: pb.AlterPartitionRequest) -> pb.AlterPartitionResponse:
        result = pb.AlterPartitionResult(error=pb.ApiError(error_code=code, message="no"))
        return pb.AlterPartitionResponse(results=[result] * len(request.proposals))

    return answer


class Controller:
    """Answers calls in the order of `answers`, repeating the last, while `open` is set."""

    def __init__(self) -> None:
        self.calls: list[pb.AlterPartitionRequest] = []
        self.answers: list[Answer] = [committed]
        self.open = asyncio.Event()
        self.open.set()

    async def alter_partition(
        self, request: pb.AlterPartitionRequest, *, timeout_s: float
    ) -> pb.AlterPartitionResponse:
        assert timeout_s > 0
        self.calls.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await self.open.wait()
        response: pb.AlterPartitionResponse = answer(request)
        return response

    def proposed(self) -> list[list[tuple[int, tuple[int, ...]]]]:
        """By call: partition and ISR of each proposal."""
        return [[(p.partition, tuple(p.isr)) for p in call.proposals] for call in self.calls]


class Heard(PartitionReplica):
    """Records its events; a `broken` one raises at the end of a proposal."""

    __slots__ = ("broken", "events")

    def handle(self, event: on.Event) -> None:
        self.events = [*getattr(self, "events", []), event]
        if getattr(self, "broken", False) and isinstance(event, on.IsrAnswered):
            raise ZeroDivisionError("a bug")
        super().handle(event)

    def ends(self) -> list[on.Event]:
        return [e for e in self.events if isinstance(e, on.IsrAnswered | on.IsrUnanswered)]


class Leaders:
    """Leaders of partitions with replicas 1, 2 and 3; 2 is outside the ISR."""

    def __init__(self, directory: Path, client: Any) -> None:
        self.directory = directory
        self.clock = ManualClock()
        self.bugs: list[Exception] = []
        self.proposals = IsrProposals(
            client,
            identity=lambda: (NODE, NODE_EPOCH),
            clock=self.clock,
            log=silent_logger(),
            on_bug=lambda _replica, error: self.bugs.append(error),
        )
        self.port = Alone()
        self.port.propose_isr = self.proposals.propose_isr  # type: ignore[method-assign]

    def add(self, partition: int = 0) -> Heard:
        log = PartitionLog.open(
            self.directory / f"t-{partition}",
            topic="t",
            partition=partition,
            config=LogConfig(),
            clock=self.clock,
            environment=InlineEnvironment(),
        )
        replica = Heard(
            node=NODE,
            node_epoch=NODE_EPOCH,
            topic_id=TOPIC,
            topic_name="t",
            partition=partition,
            log=log,
            log_dir=0,
            policy=AppendPolicy(),
            clock=self.clock,
            on_log_failure=lambda *_: None,
            port=self.port,
        )
        image_says(
            replica,
            leader=NODE,
            epoch=EPOCH,
            replicas=(1, 2, 3),
            isr=(1, 3),
            now_ms=self.clock.now_ms,
        )
        return replica

    def caught_up(self, replica: PartitionReplica, node: int = 2) -> None:
        """The node has caught up, so its leader proposes to add it."""
        follower_fetched(replica, node, 0, now_ms=self.clock.now_ms)
        if replica.core.isr_due:
            replica.handle(on.IsrDue())

    async def later(self, ms: int) -> None:
        """Time passes, on the clock and for waiting tasks."""
        self.clock.now_ms += ms
        self.proposals._wake.set()
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
async def controller() -> Controller:
    return Controller()


@pytest.fixture
async def leaders(tmp_path: Path, controller: Controller) -> AsyncIterator[Leaders]:
    made = Leaders(tmp_path, controller)
    running = asyncio.create_task(made.proposals.run())
    yield made
    running.cancel()
    assert made.bugs == []


async def test_a_proposal_says_everything_and_is_committed(
    leaders: Leaders, controller: Controller
) -> None:
    replica = leaders.add()
    leaders.caught_up(replica)
    assert controller.calls == [], "never at once"
    await leaders.later(0)
    (request,) = controller.calls
    assert (request.node_id, request.node_epoch) == (NODE, NODE_EPOCH)
    (proposal,) = request.proposals
    assert proposal == pb.IsrProposal(
        topic_id=TOPIC,
        partition=0,
        leader_epoch=EPOCH,
        partition_epoch=0,
        isr=(1, 3, 2),
        isr_node_epochs=(NODE_EPOCH, -1, 1),
    )
    assert replica.core.isr.committed == (1, 3, 2)
    assert replica.ends() == [
        on.IsrAnswered(
            attempt=1, error_code=0, leader_epoch=EPOCH, partition_epoch=1, isr=(1, 3, 2)
        )
    ]


async def test_proposals_of_a_turn_or_during_a_call_share_the_next_call(
    leaders: Leaders, controller: Controller
) -> None:
    controller.open.clear()
    replicas = [leaders.add(n) for n in range(5)]
    for replica in replicas[:2]:
        leaders.caught_up(replica)
    await leaders.later(0)
    for replica in replicas[2:]:
        leaders.caught_up(replica)
        await leaders.later(1)
    joined = (1, 3, 2)
    assert controller.proposed() == [[(0, joined), (1, joined)]], "one call at a time"
    controller.open.set()
    await leaders.later(0)
    assert controller.proposed()[1:] == [[(2, joined), (3, joined), (4, joined)]]
    assert all(len(replica.ends()) == 1 for replica in replicas)


async def test_a_call_has_a_limit(
    leaders: Leaders, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr_proposals, "PROPOSALS_MAX", 2)
    for n in range(5):
        leaders.caught_up(leaders.add(n))
    await leaders.later(0)
    assert [len(call) for call in controller.proposed()] == [2, 2, 1]


async def test_the_outcome_of_a_failed_call_is_unknown(
    leaders: Leaders, controller: Controller
) -> None:
    def lost(_request: pb.AlterPartitionRequest) -> Any:
        raise UnreachableError("nobody there")

    controller.answers = [lost, lost, committed]
    replica = leaders.add()
    leaders.caught_up(replica)
    await leaders.later(0)
    assert replica.ends() == [on.IsrUnanswered(attempt=1)]
    assert replica.core.isr.maximal == {1, 2, 3}, "the high watermark waits"
    await leaders.later(99)
    assert len(controller.calls) == 1
    await leaders.later(1)
    assert len(controller.calls) == 2, "tried again after 100 ms"
    await leaders.later(199)
    assert len(controller.calls) == 2
    await leaders.later(1)
    assert controller.proposed()[2:3] == [[(0, (1, 3))]], "what is in doubt is settled first"
    assert controller.proposed()[3:] == [[(0, (1, 3, 2))]], "and then proposed anew"
    assert [type(end) for end in replica.ends()] == [
        on.IsrUnanswered,
        on.IsrUnanswered,
        on.IsrAnswered,
        on.IsrAnswered,
    ]
    assert replica.core.isr.committed == (1, 3, 2)


async def test_no_other_leader_calls_while_the_controller_is_not_there(
    leaders: Leaders, controller: Controller
) -> None:
    def lost(_request: pb.AlterPartitionRequest) -> Any:
        raise UnreachableError("nobody there")

    controller.answers = [lost, committed]
    leaders.caught_up(leaders.add(0))
    await leaders.later(0)
    other = leaders.add(1)
    leaders.caught_up(other)
    await leaders.later(50)
    assert len(controller.calls) == 1
    await leaders.later(50)
    assert [1 in dict(call) for call in controller.proposed()] == [False, True, False]
    assert other.core.isr.committed == (1, 3, 2)


async def test_an_answer_with_a_wrong_number_of_results(
    leaders: Leaders, controller: Controller
) -> None:
    controller.answers = [lambda _: pb.AlterPartitionResponse(), committed]
    replica = leaders.add()
    leaders.caught_up(replica)
    await leaders.later(0)
    assert replica.ends() == [on.IsrUnanswered(attempt=1)]


async def test_a_refused_follower_is_proposed_again_after_a_pause_and_a_fetch(
    leaders: Leaders, controller: Controller
) -> None:
    controller.answers = [refused(ErrorCode.INELIGIBLE_REPLICA), committed]
    replica = leaders.add()
    leaders.caught_up(replica)
    await leaders.later(0)
    assert replica.ends() == [on.IsrAnswered(attempt=1, error_code=ErrorCode.INELIGIBLE_REPLICA)]
    assert replica.core.isr.maximal == {1, 3}
    leaders.caught_up(replica)
    await leaders.later(isr_proposals.REFUSED_PAUSES_MS[0] - 1)
    assert len(controller.calls) == 1
    await leaders.later(1)
    assert replica.core.isr.committed == (1, 3, 2)
    assert len(controller.calls) == 2


async def test_repeated_refusals_lengthen_the_pause(
    leaders: Leaders, controller: Controller
) -> None:
    controller.answers = [refused(ErrorCode.INELIGIBLE_REPLICA)]
    replica = leaders.add()
    pauses = isr_proposals.REFUSED_PAUSES_MS
    leaders.caught_up(replica)
    await leaders.later(0)
    for calls, pause_ms in enumerate((*pauses, pauses[-1]), 1):
        leaders.caught_up(replica)
        await leaders.later(pause_ms - 1)
        assert len(controller.calls) == calls
        await leaders.later(1)
        assert len(controller.calls) == calls + 1


async def test_pauses_do_not_poll(
    leaders: Leaders, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proposal waiting for its replica's pause once caused a check every millisecond."""
    controller.answers = [refused(ErrorCode.INELIGIBLE_REPLICA)]
    replica = leaders.add()
    leaders.caught_up(replica)
    await leaders.later(0)
    timeouts: list[float | None] = []
    timeout = asyncio.timeout

    def noted(delay_s: float | None) -> asyncio.Timeout:
        timeouts.append(delay_s)
        return timeout(delay_s)

    monkeypatch.setattr(asyncio, "timeout", noted)
    leaders.caught_up(replica)
    await leaders.later(1)
    assert replica.core.isr.pending > 0, "it proposes while it has to wait"
    assert timeouts
    assert all(delay_s is not None and delay_s > 0.1 for delay_s in timeouts)


async def test_a_node_epoch_that_is_not_the_present_one(
    leaders: Leaders, controller: Controller
) -> None:
    """The controller refuses the whole call, in each of its results."""
    controller.answers = [refused(ErrorCode.STALE_BROKER_EPOCH), committed]
    replicas = [leaders.add(n) for n in range(2)]
    for replica in replicas:
        leaders.caught_up(replica)
    await leaders.later(0)
    for replica in replicas:
        assert replica.ends() == [
            on.IsrAnswered(attempt=1, error_code=ErrorCode.STALE_BROKER_EPOCH)
        ]
        assert replica.core.isr.maximal == {1, 2, 3}, "its outcome is not known"
    await leaders.later(isr_proposals.REFUSED_PAUSES_MS[0])
    for replica in replicas:
        assert replica.core.isr.committed == (1, 3, 2)


async def test_a_proposal_that_an_image_has_overtaken_is_not_sent(
    leaders: Leaders, controller: Controller
) -> None:
    controller.open.clear()
    leaders.caught_up(leaders.add(0))
    await leaders.later(0)
    replica = leaders.add(1)
    leaders.caught_up(replica)
    image_says(replica, leader=NODE, epoch=EPOCH, replicas=(1, 2, 3), isr=(1, 3, 2))
    controller.open.set()
    await leaders.later(0)
    assert controller.proposed() == [[(0, (1, 3, 2))]]
    assert replica.ends() == [on.IsrUnanswered(attempt=1)], "it has an end all the same"


async def test_proposals_of_a_former_leader_end_without_a_call(
    leaders: Leaders, controller: Controller
) -> None:
    controller.open.clear()
    replica = leaders.add()
    leaders.caught_up(replica)
    await leaders.later(0)
    replica.fail()
    controller.open.set()
    await leaders.later(0)
    assert len(replica.ends()) == 1
    await leaders.later(1_000)
    assert len(controller.calls) == 1


async def test_what_a_leader_proposed_before_its_log_failed_is_not_sent(
    leaders: Leaders, controller: Controller
) -> None:
    """The follower that it wanted to remove from the ISR may have to lead now."""
    controller.open.clear()
    leaders.caught_up(leaders.add(0))
    await leaders.later(0)
    replica = leaders.add(1)
    replica.handle(on.LagChecked(now_ms=leaders.clock.now_ms + 60_000))
    assert replica.core.isr.pending == 1
    replica.fail()
    controller.open.set()
    await leaders.later(0)
    assert controller.proposed() == [[(0, (1, 3, 2))]]
    assert len(replica.ends()) == 1


async def test_a_bug_of_one_replica_does_not_affect_the_answers_of_others(
    leaders: Leaders,
) -> None:
    first, second = leaders.add(0), leaders.add(1)
    leaders.caught_up(first)
    leaders.caught_up(second)
    first.broken = True
    await leaders.later(0)
    assert first.failed
    assert second.core.isr.committed == (1, 3, 2)
    assert [str(bug) for bug in leaders.bugs] == ["a bug"]
    leaders.bugs.clear()


@pytest.mark.parametrize("error", [unavailable(), not_controller("b:1")], ids=["lost", "standby"])
async def test_the_transport_never_repeats_a_proposal(tmp_path: Path, error: Exception) -> None:
    endpoints, fakes = fake_cluster("a:1", "b:1")

    def fails(_method: str, _request: Any) -> Any:
        raise error

    fakes["a:1"].answer = fails
    fakes["b:1"].answer = lambda _method, request: committed(request)
    leaders = Leaders(tmp_path, ControllerClient(endpoints))
    running = asyncio.create_task(leaders.proposals.run())
    replica = leaders.add()
    leaders.caught_up(replica)
    await leaders.later(0)
    assert replica.ends() == [on.IsrUnanswered(attempt=1)]
    assert fakes["b:1"].calls == []
    await leaders.later(100)
    assert replica.core.isr.committed == (1, 3, 2), "the next attempts go to the other one"
    running.cancel()


async def test_isrs_that_got_smaller_or_larger_are_counted(
    leaders: Leaders, controller: Controller
) -> None:
    replica = leaders.add()
    leaders.caught_up(replica)
    await leaders.later(0)
    assert (leaders.proposals.shrinks, leaders.proposals.expands) == (0, 1)
    await leaders.later(60_000)
    replica.handle(on.LagChecked(now_ms=leaders.clock.now_ms))
    await leaders.later(0)
    assert replica.core.isr.committed == (1, 2)
    assert (leaders.proposals.shrinks, leaders.proposals.expands) == (1, 1)
    controller.answers = [refused(ErrorCode.INELIGIBLE_REPLICA)]
    leaders.caught_up(replica, 3)
    await leaders.later(0)
    assert (leaders.proposals.shrinks, leaders.proposals.expands) == (1, 1)
