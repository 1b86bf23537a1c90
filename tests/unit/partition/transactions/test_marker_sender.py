"""Markers under elections, on a loop that the test steps."""

import pytest
from structlog import get_logger
from structlog.testing import capture_logs

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.transactions import TransactionMarker
from highwater.partition.transactions import marker_sender
from highwater.partition.transactions.core.image import TopicPartition, TransactionKey
from highwater.partition.transactions.marker_sender import PAUSE_S_MAX, Ending, MarkerSender
from highwater.runtime.logging import silent_logger
from tests.support.stepped_loop import SteppedLoop
from tests.unit.partition.transactions.node import Partitions

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Bench:
    """A sender, its partitions, and shards that may go away."""

    def __init__(self, logger=None) -> None:
        self.loop = SteppedLoop()
        self.port = Partitions()
        self.port.hold = True
        self.gone: set[str] = set()
        self.busy: set[str] = set()
        """Transactions that their shards cannot complete now."""
        self.done: list[str] = []
        self.marked: list[tuple[str, TopicPartition]] = []
        self.sender = MarkerSender(
            self.port,
            call_soon=self.loop.call_soon,
            call_later=self.loop.call_later,
            monotonic_ms=lambda: int(1_000 * self.loop.now),
            logger=logger or silent_logger(),
        )

    def begin(
        self,
        name: str,
        *partitions: TopicPartition,
        epoch: int = 3,
        instance: InstanceId = DEFAULT_INSTANCE,
    ) -> None:
        self.loop.call(
            self.sender.begin,
            Ending(
                key=TransactionKey(instance, name),
                marker=TransactionMarker(
                    producer_id=len(name),
                    producer_epoch=1,
                    committed=True,
                    coordinator_epoch=epoch,
                    transaction_version=2,
                ),
                waiting=set(partitions),
                is_current=lambda: name not in self.gone,
                written=lambda partition: self.marked.append((name, partition)),
                complete=lambda: self._complete(name),
            ),
        )
        self.turn()

    def _complete(self, name: str) -> bool:
        if name in self.busy:
            return False
        self.done.append(name)
        return True

    def turn(self, seconds: float = 0.0) -> None:
        self.loop.now += seconds
        self.loop.turn(4)

    def answer(self) -> None:
        self.loop.call(self.port.answer)
        self.turn()

    @property
    def under_way(self) -> list[tuple[int, int]]:
        """(node, partitions) of each request under way."""
        return [
            (int(node), sum(len(each.partitions) for each in markers))
            for node, markers, _ in self.port.sent
        ]


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.loop.close()


def test_one_request_a_node_and_the_rest_gathers(bench):
    bench.begin("a", T0, T1, T2)
    assert sorted(bench.under_way) == [(1, 2), (2, 1)]
    bench.begin("b", T0)
    bench.begin("c", T1)
    assert sorted(bench.under_way) == [(1, 2), (2, 1)]
    assert (bench.sender.transactions, bench.sender.waiting) == (3, 5)
    bench.answer()
    assert bench.done == ["a"]
    assert bench.under_way == [(1, 2)]
    bench.answer()
    assert bench.done == ["a", "b", "c"]
    assert (bench.sender.transactions, bench.sender.waiting, bench.sender.written) == (0, 0, 5)


def test_answers_leave_before_markers_are_written(bench):
    seen: list = []

    def flush() -> None:
        seen.append(list(bench.port.requests))

    begin = bench.sender.begin

    def committed(ending: Ending) -> None:
        # A task makes the answer in the next turn, and a connection sends it in the one behind that.
        bench.loop.call_soon(bench.loop.call_soon, flush)
        begin(ending)

    bench.sender.begin = committed
    bench.begin("a", T0)
    assert seen == [[]]
    assert bench.port.requests == [(1, [T0])]


def test_a_transaction_without_partitions_is_complete_at_once(bench):
    bench.begin("a")
    assert (bench.done, bench.port.requests) == (["a"], [])


def test_a_new_leader_gets_what_the_old_one_refused(bench):
    bench.begin("a", T0, T1)
    bench.port.codes = {T0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    bench.answer()
    assert bench.marked == [("a", T1)]
    assert bench.under_way == []
    bench.port.codes = {}
    bench.port.leaders[T0] = 2
    bench.loop.call(bench.sender.image_changed)
    bench.turn()
    assert bench.under_way == [(2, 1)]
    bench.answer()
    assert bench.done == ["a"]


def test_markers_that_wait_for_a_request_go_to_the_leader_of_then(bench):
    bench.begin("a", T0)
    bench.begin("b", T1)
    assert bench.under_way == [(1, 1)]
    bench.port.leaders[T1] = 2
    bench.loop.call(bench.sender.image_changed)
    assert bench.under_way == [(1, 1), (2, 1)], "no need to wait for the other node"
    bench.answer()
    assert bench.done == ["a", "b"]


@pytest.mark.parametrize(
    "code",
    [
        None,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_refusals_and_silence_are_tried_again_with_growing_pauses(bench, code):
    bench.port.codes = {T0: code}
    bench.begin("a", T0)
    pauses = []
    for _ in range(9):
        bench.answer()
        paused_s = 0.0
        while not bench.port.sent:
            bench.turn(0.005)
            paused_s += 0.005
            assert paused_s < 2
        pauses.append(paused_s)
    assert pauses[0] <= 0.025
    assert sorted(pauses) == pauses
    assert pauses[-1] <= PAUSE_S_MAX + 0.005
    assert bench.sender.failures == 9
    bench.port.codes = {}
    bench.answer()
    assert bench.done == ["a"]


def test_a_partition_without_a_leader_waits_for_one(bench):
    bench.port.leaders[T0] = 0
    bench.begin("a", T0, T1)
    bench.answer()
    assert (bench.under_way, bench.done) == ([], [])
    bench.port.leaders[T0] = 1
    bench.turn(0.1)
    assert bench.under_way == [(1, 1)]
    bench.answer()
    assert bench.done == ["a"]


def test_a_deleted_partition_needs_no_marker(bench):
    bench.begin("a", T0, T1)
    bench.port.codes = {T0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    bench.answer()
    del bench.port.leaders[T0]
    bench.loop.call(bench.sender.image_changed)
    bench.turn()
    assert bench.done == ["a"]
    assert bench.marked == [("a", T1), ("a", T0)]


def test_partitions_are_those_of_the_transactions_instance(bench):
    team = InstanceId("team")
    bench.port.without_topics.add(team)
    bench.begin("theirs", T0, instance=team)
    bench.begin("mine", T0)
    assert bench.done == ["theirs"], "there is nothing that could have a marker"
    assert bench.under_way == [(1, 1)]
    bench.answer()
    assert bench.done == ["theirs", "mine"]


def test_nothing_of_a_resigned_shard_leaves_any_more(bench):
    bench.begin("a", T0)
    bench.begin("b", T0)
    bench.begin("c", T2)
    bench.port.codes = {T2: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    bench.gone = {"a", "b", "c"}
    before = list(bench.port.requests)
    bench.answer()
    bench.turn(5)
    assert bench.port.requests == before
    assert (bench.done, bench.marked, bench.sender.transactions) == ([], [], 0)


def test_a_paused_transaction_of_a_resigned_shard_is_forgotten(bench):
    bench.port.leaders[T0] = 0
    bench.begin("a", T0)
    bench.gone = {"a"}
    bench.turn(1)
    assert bench.sender.transactions == 0


def test_a_fenced_coordinator_gives_up(bench):
    bench.begin("a", T0, T1)
    bench.port.codes = {T0: ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    bench.answer()
    bench.turn(5)
    assert (bench.done, bench.under_way, bench.sender.transactions) == ([], [], 0)


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT]
)
def test_where_nothing_is_open_nothing_is_marked(bench, code):
    bench.begin("a", T0)
    bench.port.codes = {T0: code}
    bench.answer()
    assert bench.done == ["a"]


def test_a_shard_that_cannot_write_now_completes_later(bench):
    bench.busy = {"a"}
    bench.begin("a", T0)
    bench.answer()
    assert bench.done == []
    bench.busy = set()
    bench.turn(0.1)
    assert bench.done == ["a"]
    assert len(bench.port.requests) == 1


def test_requests_have_a_limit(bench, monkeypatch):
    monkeypatch.setattr(marker_sender, "REQUEST_PARTITIONS_MAX", 2)
    bench.begin("a", T2)
    for name in "bcdef":
        bench.begin(name, T2)
    bench.answer()
    assert bench.under_way == [(2, 2)]
    for _ in range(3):
        bench.answer()
    assert bench.done == list("abcdef")


def test_an_answer_of_another_length_is_none(bench):
    bench.begin("a", T0)
    ((_, _, done),) = bench.port.sent
    bench.port.sent = []
    bench.loop.call(done, [0, 0])
    assert bench.done == []
    bench.turn(0.1)
    assert bench.under_way == [(1, 1)]


def test_refusals_that_nobody_expects_are_told_within_a_limit():
    with capture_logs() as told:
        bench = Bench(get_logger())
        many = [TopicPartition("t", number) for number in range(100)]
        bench.port.leaders.update(dict.fromkeys(many, 1))
        bench.port.codes = dict.fromkeys(many, ErrorCode.UNKNOWN_SERVER_ERROR)
        bench.begin("a", *many)
        for _ in range(20):
            while bench.under_way:
                bench.answer()
            bench.turn(PAUSE_S_MAX)
        bench.loop.close()
    lines = [one for one in told if one["event"] == "txn_marker_refused"]
    assert bench.sender.failures > 1_000
    assert 10 <= len(lines) <= 100
    assert {one["error"] for one in lines} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert any(one["event"] == "log_lines_left_out" for one in told)
