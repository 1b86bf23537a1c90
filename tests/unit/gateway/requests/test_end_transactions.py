"""EndTxn without a task: the usual answers, and what goes the way of all requests."""

import asyncio
from types import SimpleNamespace

import pytest

from highwater.gateway.data_plane.produce_path import ProducePath
from highwater.gateway.requests import end_transactions
from highwater.gateway.requests.requests import Requests
from highwater.gateway.routing.client import ClientInfo
from highwater.gateway.routing.client import Peer as ClientPeer
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.framing import encode_request_header
from highwater.kafka.messages import end_txn as codec
from highwater.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import AllowAll
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.steps import finish
from tests.unit.gateway.core.session_world import World
from tests.unit.gateway.data_plane.fetch_world import fetch_path
from tests.unit.gateway.handlers.fakes import FakeBackend, a_transaction, echo, refuse, request_of
from tests.unit.gateway.handlers.images import image_of, transaction_topic
from tests.unit.gateway.quota.quota_world import Now, client_quotas, key

VERSIONS = range(6)
REQUEST = EndTxnRequest("payments", 7_000, 3, True)
NEXT_ONE = EndTxnResponse(producer_id=7_000, producer_epoch=4)


class Tasks:
    """Keeps the tasks of the way of all requests."""

    def __init__(self):
        self.started = []

    def start(self, coroutine, *, name):
        assert name == "api-26"
        self.started.append(asyncio.get_running_loop().create_task(coroutine))

    async def ended(self):
        started, self.started = self.started, []
        assert started, "it did not go the way of all requests"
        for task in started:
            await task


class Scene:
    """A client of one connection, and the coordinator of its transaction at node 3."""

    def __init__(self, answer, leaders=(1, 1, 3), node=None):
        """The client came by the port of `node`; None: by the bootstrap port."""
        self.world = World()
        self.tasks = Tasks()
        self.quotas = client_quotas(Now())
        topics = [transaction_topic(list(leaders))] if leaders else []
        self.backend = FakeBackend(image_of(*topics))
        self.backend.coordinate(answer)
        self.bugs = []
        self.meters = self.world.shared.meters
        self.peer = self.world.connect()
        where = ClientPeer(instance=DEFAULT_INSTANCE, node=node, host="10.0.0.1", port=1)
        self.peer.session.client = ClientInfo(
            where, self.backend.routing.topics_of(DEFAULT_INSTANCE)
        )
        self.peer.session.handler = Requests(
            produce=ProducePath(AllowAll()),
            fetch=fetch_path(self.world.shared.budget),
            backend=self.backend,
            quotas=self.quotas,
            meters=self.meters,
            tasks=self.tasks,
            log=SimpleNamespace(error=lambda event, **_: self.bugs.append(event)),
        )

    def send(self, version=5, body=None):
        header = encode_request_header(codec.API_KEY, version, 9, "writer")
        frame = header + (codec.encode_request(REQUEST, version) if body is None else body)
        self.peer.feed(len(frame).to_bytes(4, "big") + frame)

    def answer(self, version=5):
        """The response so far; None if there is none."""
        self.world.run()
        reply = b"".join(self.peer.wire.sent)
        if not reply:
            return None
        assert reply[4:8] == (9).to_bytes(4, "big")
        assert int.from_bytes(reply[:4], "big") == len(reply) - 4
        return codec.decode_response(reply, 8 + (version >= 3), version)

    @property
    def calls(self):
        return self.backend.coordinator_calls()

    def settled(self):
        return self.world.budget.used == 0 and self.peer.session.outstanding == 0


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_coordinator_answers_without_a_task(version):
    s = Scene(echo(NEXT_ONE if version >= 5 else EndTxnResponse()))
    s.send(version)
    answer = s.answer(version)
    told = (answer.error_code, answer.producer_id, answer.producer_epoch)
    assert told == ((0, 7_000, 4) if version >= 5 else (0, -1, -1))
    [(node, call)] = s.calls
    assert (node, call.partition, request_of(call)) == (3, 2, REQUEST)
    assert (call.client_id, call.client_host) == ("writer", "/10.0.0.1")
    assert call.instance == DEFAULT_INSTANCE
    assert s.tasks.started == []
    assert s.meters.apis[codec.API_KEY].errors == {}
    assert s.settled()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("code", "told"), [(14, 14), (15, 15), (ErrorCode.NOT_ENOUGH_REPLICAS, 15)]
)
async def test_errors_of_the_coordinator_are_told_in_words_of_its_clients(version, code, told):
    s = Scene(refuse(code))
    s.send(version)
    answer = s.answer(version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (told, -1, -1)
    assert s.meters.apis[codec.API_KEY].errors == {told: 1}
    assert s.tasks.started == []
    assert s.settled()


async def test_errors_in_the_answer_are_counted():
    s = Scene(echo(EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)))
    s.send()
    assert s.answer().error_code == ErrorCode.PRODUCER_FENCED
    assert s.meters.apis[codec.API_KEY].errors == {ErrorCode.PRODUCER_FENCED: 1}


async def test_what_a_node_refuses_is_not_sent_to_the_next_coordinator():
    def refuse_and_move(call):
        s.backend.change(topics=(transaction_topic([2, 2, 2]),))
        return (ErrorCode.NOT_COORDINATOR, b"")

    s = Scene(refuse(ErrorCode.NOT_COORDINATOR))
    s.backend.links[3].coordinate = refuse_and_move
    s.send()
    assert s.answer().error_code == ErrorCode.NOT_COORDINATOR
    assert [node for node, _ in s.calls] == [3]
    assert s.settled()


@pytest.mark.parametrize(("chosen", "code"), [(None, 0), (3, 0), (1, ErrorCode.NOT_COORDINATOR)])
async def test_only_the_node_that_the_client_chose_ends_a_transaction(chosen, code):
    s = Scene(echo(NEXT_ONE), node=chosen)
    s.send()
    if code:
        assert s.answer() is None
        await s.tasks.ended()
    assert s.answer().error_code == code
    assert [node for node, _ in s.calls] == ([] if code else [3])
    assert s.settled()


async def test_who_may_not_write_gets_the_answer_of_all_requests():
    s = Scene(echo(NEXT_ONE))
    s.backend.deny((AclOperation.WRITE, a_transaction("payments")))
    s.send()
    await s.tasks.ended()
    assert s.answer().error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert s.calls == []


@pytest.mark.parametrize("leaders", [(), (-1, -1, -1)])
async def test_without_a_coordinator(leaders):
    s = Scene(echo(NEXT_ONE), leaders)
    s.send()
    await s.tasks.ended()
    assert s.answer().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_clients_with_quotas_go_the_way_of_all_requests():
    s = Scene(echo(NEXT_ONE))
    s.quotas.handle_by(s.peer.session.handler, s.peer.session.handler)
    finish(s.quotas.following({key(client="writer"): {"request_percentage": 50.0}}, []))
    s.send()
    await s.tasks.ended()
    assert s.answer() == NEXT_ONE


async def test_a_coordinator_that_is_silent_for_too_long():
    s = Scene(lambda _: None)
    s.send()
    owner = s.peer.session.handler._end_transactions
    s.backend.clock.now_ms += s.backend.settings.request_timeout_ms
    owner._look()
    assert s.answer() is None, "the coordinator answers by then, or a little later"
    s.backend.clock.now_ms += end_transactions.REPLY_GRACE_MS
    owner._look()
    assert s.answer().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    [(_, call)] = s.calls
    call.reply(0, b"too late")
    assert s.settled()


async def test_looks_go_on_while_calls_wait(monkeypatch):
    monkeypatch.setattr(end_transactions, "LOOK_S", 0.0)
    s = Scene(lambda _: None)
    s.send()
    await asyncio.sleep(0.01)
    s.backend.clock.now_ms += s.backend.settings.request_timeout_ms + 10_000
    await asyncio.sleep(0.01)
    assert s.answer() is not None


async def test_a_client_that_leaves_cancels_its_call():
    s = Scene(lambda _: None)
    s.send()
    [(node, call)] = s.calls
    s.peer.lose()
    assert s.backend.links[node].cancelled == [call]
    call.reply(0, codec.encode_response(NEXT_ONE, 5))
    assert s.settled()


async def test_a_response_that_cannot_be_read_ends_its_connection():
    s = Scene(lambda _: (0, b"?"))
    s.send()
    assert s.peer.wire.closed == "the reply could not be made"
    assert s.bugs == ["reply_failed"]
    s.peer.lose()
    assert s.settled()


async def test_a_malformed_request_closes_its_connection():
    s = Scene(echo(NEXT_ONE))
    s.send(body=b"\x7f")
    with pytest.raises(AttributeError, match="info"):
        await s.tasks.ended()  # Where the refusal is logged; `test_requests` goes on from there.
    assert s.calls == []
