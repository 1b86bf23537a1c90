"""The link to a node in the same process ends its waits as a link over gRPC does."""

import asyncio

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.coordinator import CoordinatorCall
from highwater.kafka.error_codes import ErrorCode
from highwater.model.authorization import ANONYMOUS, TopicView
from highwater.model.errors import UnreachableError
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.steps import finish
from highwater.partition.data_plane.offsets import OffsetQueries
from highwater.partition.edge.local_link import LocalLink
from highwater.partition.edge.member_link import LocalMemberLink
from highwater.partition.node.log_dirs import LogDirRequests
from highwater.partition.node.loggers import LoggerQueries
from highwater.runtime.logging import silent_logger
from tests.support.log_batches import make_batch
from tests.support.looked_at import longest_step
from tests.support.still_replicas import StillReplicas
from tests.unit.hop.sinks import Owner, Sink, route
from tests.unit.partition.data_plane.node import EPOCH, Fetched, Node, ask, stored

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


class Coordinator:
    """Keeps calls; the test answers them."""

    def __init__(self):
        self.submitted, self.cancelled = [], []
        self.submit = self.submitted.append

    def cancel(self, call):
        call.cancelled = True
        self.cancelled.append(call)


class LeavesIt(Owner):
    def take_result(self, group, base_offsets, failures):
        return False


class World:
    def __init__(self, tmp_path):
        self.node = Node(tmp_path)
        self.replica = self.node.add()
        self.due, self.coordinator = [], Coordinator()
        local = LocalLink(
            1,
            plane=self.node.plane,
            queries=OffsetQueries(self.node.plane, self.node._log_failed),
            log_dirs=LogDirRequests(
                [],
                replicas=lambda _: (),
                is_online=lambda _: True,
                find=lambda _: None,
                prefer=lambda *_: None,
                moves=StillReplicas(),
            ),
            loggers=LoggerQueries(silent_logger()),
            coordinator=self.coordinator,
            schedule=self.due.append,
        )
        self.link = LocalMemberLink(
            local,
            plane=self.node.plane,
            coordinator=self.coordinator,
            schedule=self.due.append,
            append_owner=LeavesIt(),
        )
        self.replies = []

    def append(self, sink, index=0):
        batch = make_batch()
        self.link.append(route(epoch=EPOCH), 1, memoryview(batch), len(batch), sink, index, 1000)
        while self.due:
            self.due.pop(0)()
        return batch

    def call(self):
        return CoordinatorCall(
            api_key=11,
            api_version=3,
            instance=DEFAULT_INSTANCE,
            client_id="c",
            client_host="/h",
            body=b"body",
            partition=7,
            deadline_ms=1000,
            reply=lambda code, body: self.replies.append((code, body)),
        )


@pytest.fixture
def w(tmp_path):
    return World(tmp_path)


async def test_appends_and_fetches_copy_nothing(w):
    sink, waiting = Sink(), Fetched((ask(0),))
    w.link.fetch(waiting.work)
    batch = w.append(sink)
    assert sink.offsets == {0: 0}
    assert stored(w.replica) == batch, "the client's own bytes, patched in place"
    assert waiting.sizes == [len(batch)]
    waiting.results[0].release()
    at_once = Fetched((ask(0),))
    w.link.fetch(at_once.work)
    assert at_once.sizes == [len(batch)]
    assert at_once.results[0].records.fd >= 0, "a range of the segment file"
    at_once.results[0].release()


async def test_a_fenced_node_answers_no_fetch(w):
    waiting = Fetched((ask(0),))
    w.link.fetch(waiting.work)
    w.link.set_fenced(True)
    finish(w.link.ending_waits())
    assert [result.error_code for result in waiting.results] == [NOT_LEADER]
    assert not waiting.work.cancelled
    assert w.node.plane.waiting_fetches == 0
    new = Fetched((ask(0),))
    w.link.fetch(new.work)
    assert [result.error_code for result in new.results] == [NOT_LEADER]
    w.link.set_fenced(False)
    again = Fetched((ask(0),))
    w.link.fetch(again.work)
    assert again.answers == 0
    w.link.cancel_fetch(again.work)
    assert w.node.plane.waiting_fetches == 0
    w.link.set_fenced(True)
    finish(w.link.ending_waits())
    assert again.answers == 0, "its client is gone"


async def test_a_fenced_node_answers_no_coordinator_call(w):
    call = w.call()
    call.view = TopicView(ANONYMOUS, "10.0.0.1", visible_without_acl=False)
    w.link.submit(call)
    (given,) = w.coordinator.submitted
    assert given.view == call.view
    assert (given.body, given.partition, given.deadline_ms) == (b"body", 7, 1000)
    given.reply(0, b"answer")
    assert w.replies == [(0, b"answer")]
    given.reply(0, b"twice")
    w.link.submit(w.call())
    w.link.set_fenced(True)
    finish(w.link.ending_waits())
    assert w.replies[1:] == [(NOT_AVAILABLE, b"")]
    assert w.coordinator.cancelled == [w.coordinator.submitted[1]]
    w.coordinator.submitted[1].reply(0, b"late")
    w.link.submit(w.call())
    assert w.replies[2:] == [(NOT_AVAILABLE, b"")]
    assert len(w.coordinator.submitted) == 2


async def test_many_requests_to_a_fenced_node_end_in_steps(w):
    """Ten thousand answers in one turn of the loop would stop all clients for half a second."""
    fetches = [Fetched((ask(0),)) for _ in range(40)]
    for fetched in fetches:
        w.link.fetch(fetched.work)
    calls = [w.call() for _ in range(40)]
    for call in calls:
        w.link.submit(call)

    def answers():
        return len(w.replies) + sum(fetched.answers for fetched in fetches)

    w.link.set_fenced(True)
    assert answers() == 0
    steps = w.link.ending_waits()
    next(steps)
    w.link.cancel_fetch(fetches[39].work)
    w.link.cancel(calls[39])
    w.coordinator.submitted[38].reply(0, b"late but true")
    _, longest = longest_step(steps, answers)
    assert longest <= 16
    assert fetches[39].answers == 0
    told = [[result.error_code for result in f.results] for f in fetches[:39]]
    assert told == [[NOT_LEADER]] * 39
    assert w.replies == [(0, b"late but true"), *[(NOT_AVAILABLE, b"")] * 38]
    assert w.node.plane.waiting_fetches == 0
    assert len(w.coordinator.cancelled) == 39


async def test_a_call_of_a_client_that_is_gone_is_forgotten(w):
    call = w.call()
    w.link.submit(call)
    w.link.cancel(call)
    assert call.cancelled
    assert w.coordinator.cancelled == w.coordinator.submitted
    w.coordinator.submitted[0].reply(0, b"late")
    w.link.set_fenced(True)
    finish(w.link.ending_waits())
    assert w.replies == []


async def test_after_the_end_nothing_waits(w):
    fetch, sink = Fetched((ask(0),)), Sink()
    w.link.fetch(fetch.work)
    w.link.submit(w.call())
    batch = make_batch()
    w.link.append(route(epoch=EPOCH), 1, memoryview(batch), len(batch), sink, 0, 1000)
    assert w.link.takes_appends
    await w.link.close()
    assert not w.link.takes_appends
    assert [result.error_code for result in fetch.results] == [NOT_LEADER]
    assert w.replies == [(NOT_AVAILABLE, b"")]
    assert sink.codes == {0: NOT_LEADER}
    assert stored(w.replica) == b""


async def test_questions_for_offsets_end_when_the_node_is_fenced(w, monkeypatch):
    """They may wait for a disk that hangs."""
    answers = asyncio.Event()

    async def list_offsets(_queries, _request):
        await answers.wait()
        return pb.ListOffsetsResponse()

    monkeypatch.setattr(OffsetQueries, "list_offsets", list_offsets)
    asking = [
        asyncio.ensure_future(w.link.list_offsets(pb.ListOffsetsRequest(), 30)) for _ in range(2)
    ]
    await asyncio.sleep(0)
    w.link.set_fenced(True)
    w.link.set_fenced(True)
    for each in asking:
        with pytest.raises(UnreachableError, match="node 1 was fenced"):
            await each
    answers.set()
    assert await w.link.list_offsets(pb.ListOffsetsRequest(), 30) == pb.ListOffsetsResponse()
