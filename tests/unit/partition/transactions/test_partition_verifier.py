"""Questions to coordinators: batched, one request at a time for a node, each answered once."""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResponse,
    decode_request,
    encode_response,
)
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResponseAddPartitionsToTxnPartitionResult as PartitionResult,
)
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResponseAddPartitionsToTxnResult as TransactionResult,
)
from highwater.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResponseAddPartitionsToTxnTopicResult as TopicResult,
)
from highwater.model.ids import DEFAULT_INSTANCE, NO_NODE, InstanceId, NodeId
from highwater.model.transactions import PartitionWriter
from highwater.partition.transactions import partition_verifier as module
from highwater.partition.transactions.core.image import TopicPartition
from highwater.partition.transactions.partition_verifier import VERSION, PartitionVerifier


def response(request, code_of):
    return encode_response(
        AddPartitionsToTxnResponse(
            results_by_transaction=[
                TransactionResult(
                    transactional_id=transaction.transactional_id,
                    topic_results=[
                        TopicResult(
                            name=topic.name,
                            results_by_partition=[
                                PartitionResult(
                                    partition_index=number,
                                    partition_error_code=code_of(transaction, number),
                                )
                                for number in topic.partitions
                            ],
                        )
                        for topic in transaction.topics
                    ],
                )
                for transaction in request.transactions
            ]
        ),
        VERSION,
    )


class Fixture:
    """Two nodes coordinate: ids that begin with "b" are node 2's, with "?" nobody's."""

    def __init__(self) -> None:
        self.turns: list = []
        self.sent: list = []
        self.places: list = []
        self.told: list = []
        self.here_is: Here | None = None
        self.verifier = PartitionVerifier(self, call_soon=self.turns.append)

    def find(self, key):
        return {"b": NodeId(2), "?": NO_NODE}.get(key.transactional_id[0], NodeId(1))

    def here(self, place):
        return self.here_is if place.node == 1 else None

    def send(self, place, body, done):
        self.places.append(place)
        self.sent.append((place.node, decode_request(body, 0, VERSION), done))

    def ask(self, name, partition=0, *, adds=True, producer_id=7, instance=DEFAULT_INSTANCE):
        writer = PartitionWriter(
            transactional_id=name,
            producer_id=producer_id,
            producer_epoch=3,
            instance=instance,
            topic="t",
            partition=partition,
            adds_partition=adds,
        )
        self.verifier.verify(writer, lambda code: self.told.append((name, partition, code)))

    def turn(self):
        turns, self.turns[:] = list(self.turns), []
        for turn in turns:
            turn()

    def answer(self, code_of=lambda _transaction, _number: 0):
        _, request, done = self.sent.pop(0)
        done(0, response(request, code_of))


@pytest.fixture
def f():
    return Fixture()


def test_questions_of_one_turn_are_one_request(f):
    f.ask("a", 0)
    f.ask("a", 1)
    f.ask("a2", 1, adds=False)
    f.ask("b", 1)
    assert f.sent == []
    f.turn()
    (first, one, _), (second, _, _) = f.sent
    assert (first, second) == (1, 2)
    assert [
        (each.transactional_id, each.producer_id, each.producer_epoch, each.verify_only)
        for each in one.transactions
    ] == [("a", 7, 3, False), ("a2", 7, 3, True)]
    assert [(each.name, list(each.partitions)) for each in one.transactions[0].topics] == [
        ("t", [0, 1])
    ]
    f.answer(lambda _transaction, number: number * ErrorCode.INVALID_TXN_STATE)
    assert f.told == [("a", 0, 0), ("a", 1, 48), ("a2", 1, 48)]


class Here:
    """This node's coordinator."""

    def __init__(self):
        self.asked: list = []

    def ask(self, question, done):
        self.asked.append((question, done))


def test_this_nodes_coordinator_is_asked_without_a_request(f):
    here = f.here_is = Here()
    f.ask("a", 0)
    f.ask("a", 1)
    f.ask("a2", 1, adds=False)
    f.ask("b", 1)
    f.turn()
    assert [node for node, _, _ in f.sent] == [2]
    (first, told), (second, told_second) = here.asked
    assert first == (
        (DEFAULT_INSTANCE, "a"), (7, 3), frozenset({TopicPartition("t", 0), TopicPartition("t", 1)}), True,
    )  # fmt: skip
    assert (second.key.transactional_id, second.adds_partitions) == ("a2", False)
    f.ask("a", 2)
    f.turn()
    assert len(here.asked) == 3, "no question waits for another one's answer"
    told_second(ErrorCode.NOT_COORDINATOR, None)
    told(0, {TopicPartition("t", 0): 0})
    assert f.told == [
        ("a2", 1, ErrorCode.NOT_COORDINATOR),
        ("a", 0, 0),
        ("a", 1, ErrorCode.UNKNOWN_SERVER_ERROR),
    ]


def test_a_node_has_one_request_at_a_time(f):
    f.ask("a")
    f.turn()
    f.ask("a", 1)
    f.ask("c", 1)
    f.ask("b", 1)
    f.turn()
    assert [node for node, _, _ in f.sent] == [1, 2]
    f.answer()
    f.turn()
    (_, request, _) = f.sent[1]
    assert [each.transactional_id for each in request.transactions] == ["a", "c"]


def test_instances_have_requests_of_their_own(f):
    team = InstanceId("team")
    f.ask("a")
    f.ask("a", 1, instance=team)
    f.turn()
    assert f.places == [(1, DEFAULT_INSTANCE), (1, team)]
    f.ask("c", instance=team)
    f.answer()
    f.turn()
    assert len(f.sent) == 1, "the request of the other instance is still under way"
    f.answer(lambda _transaction, _number: ErrorCode.INVALID_TXN_STATE)
    f.turn()
    assert f.places[2:] == [(1, team)]
    assert f.told == [("a", 0, 0), ("a", 1, ErrorCode.INVALID_TXN_STATE)]


def test_the_coordinator_of_the_instance_is_asked(f):
    here = f.here_is = Here()
    f.ask("a", instance=InstanceId("team"))
    f.turn()
    ((question, _),) = here.asked
    assert question.key == ("team", "a")


def test_the_same_question_is_asked_once(f):
    f.ask("a")
    f.ask("a")
    f.ask("a", producer_id=8)
    f.turn()
    f.answer(lambda transaction, _: 0 if transaction.producer_id == 7 else 47)
    assert f.told == [("a", 0, 0), ("a", 0, 0), ("a", 0, 47)]


def test_long_ids_do_not_make_a_request_that_nobody_takes(f):
    for number in range(100):
        f.ask("x" * 30_000 + str(number))
    f.ask("y" * 32_767)
    requests = 0
    while f.turns:
        f.turn()
        _, request, _ = f.sent[0]
        assert sum(len(one.transactional_id) for one in request.transactions) <= 1 << 20
        f.answer()
        requests += 1
    assert requests == 3
    assert len(f.told) == 101


def test_one_id_alone_is_sent_however_long_it_is(f, monkeypatch):
    monkeypatch.setattr(module, "REQUEST_BYTES_MAX", 10)
    f.ask("a" * 11)
    f.turn()
    f.answer()
    assert [code for _, _, code in f.told] == [0]


def test_requests_have_a_limit(f, monkeypatch):
    monkeypatch.setattr(module, "REQUEST_WRITERS_MAX", 2)
    for number in range(5):
        f.ask(f"a{number}")
    f.turn()
    counts = []
    while f.sent:
        counts.append(len(f.sent[0][1].transactions))
        f.answer()
        f.turn()
    assert counts == [2, 2, 1]
    assert [name for name, _, _ in f.told] == ["a0", "a1", "a2", "a3", "a4"]


def test_nobody_coordinates(f):
    f.ask("?")
    assert f.told == []
    f.turn()
    assert f.told == [("?", 0, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    assert f.sent == []


def test_a_node_that_does_not_answer(f):
    f.ask("a")
    f.turn()
    f.ask("c")
    f.sent.pop()[2](ErrorCode.NETWORK_EXCEPTION, b"")
    assert f.told == [("a", 0, 13), ("c", 0, 13)], "what waited for it, too"
    f.turn()
    f.ask("a")
    f.turn()
    f.answer()
    assert f.told[2:] == [("a", 0, 0)]


def test_a_question_right_after_those_that_got_no_answer_is_asked(f):
    f.ask("a")
    f.turn()
    f.ask("c", 0)
    f.sent.pop()[2](ErrorCode.NETWORK_EXCEPTION, b"")
    f.ask("c", 1)
    f.turn()
    f.answer()
    assert f.told[1:] == [("c", 0, ErrorCode.NETWORK_EXCEPTION), ("c", 1, 0)]


def test_a_question_behind_a_request_under_way_joins_those_of_an_earlier_turn(f):
    f.ask("a")
    f.turn()
    f.ask("c", 0)
    f.turn()
    f.ask("c", 1)
    f.answer()
    f.turn()
    [(_, request, _)] = f.sent
    [transaction] = request.transactions
    assert [list(topic.partitions) for topic in transaction.topics] == [[0, 1]]


def test_a_refused_request(f):
    f.ask("a")
    f.turn()
    f.ask("c")
    f.sent.pop()[2](ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, b"")
    assert f.told == [("a", 0, 14)]
    f.turn()
    assert [node for node, _, _ in f.sent] == [1]


@pytest.mark.parametrize(
    "body", [b"", b"\xff" * 9, encode_response(AddPartitionsToTxnResponse(), VERSION)]
)
def test_an_answer_that_is_none(f, body):
    f.ask("a")
    f.turn()
    f.sent.pop()[2](0, bytes(body))
    assert f.told == [("a", 0, ErrorCode.UNKNOWN_SERVER_ERROR)]
