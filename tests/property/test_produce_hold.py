"""For any leaders, images and links: order is kept, no batch is repeated, all are answered."""

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.gateway.core.produce_hold import HoldLedger, PartitionHold
from highwater.hop.append import Failure
from highwater.kafka.error_codes import ErrorCode
from tests.support.log_batches import make_batch
from tests.unit.hop.sinks import Sink, group_of, route

STEPS = st.lists(
    st.sampled_from(
        ["send", "send", "deliver", "elect", "node", "image", "retry", "expire", "cut", "lead"]
    ),
    max_size=80,
)


class Cluster:
    """One partition: its true epoch, the epochs that node and gateway know, and the link.

    Every leader continues the log. A batch's index is its place in the client's order.
    """

    def __init__(self) -> None:
        self.truth = self.known = 1
        self.ledger = HoldLedger(1000)
        self.hold = PartitionHold(route(epoch=1), self.ledger, owner=None, led=True)
        self.sink = Sink()
        self.way = []
        self.log = []
        self.count = self.now_ms = 0

    def send(self) -> None:
        batch = make_batch()
        if self.hold.straight:
            group = group_of(
                batch, epoch=self.hold.epoch, sink=self.sink, deadline_ms=self.now_ms + 3
            )
            group.indexes = [self.count]
            self.hold.sent(group)
            self.way.append(group)
        else:
            self.hold.append(1, batch, len(batch), self.sink, self.count, self.now_ms + 3)
            self.way += self.hold.take()
        self.count += 1

    def deliver(self) -> None:
        """The node receives the oldest group."""
        if not self.way:
            return
        group = self.way.pop(0)
        if group.leader_epoch == self.known == self.truth:
            self.log += group.indexes
            assert not self.hold.completed(group, None)
            group.complete([0] * len(group.batches))
        else:
            failure = Failure(ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=self.known)
            failures = dict.fromkeys(range(len(group.batches)), failure)
            if not self.hold.completed(group, failures):
                group.complete([-1] * len(group.batches), failures)
        self.way += self.hold.take()

    def elect(self) -> None:
        self.truth += 1

    def cut(self) -> None:
        """The leader fails, and groups on the wire are lost; older ones had been received."""
        self.truth += 1
        self.hold.moved(self.truth, led=False)
        lost, self.way = self.way, []
        for place, group in enumerate(lost):
            group.attempted = group.attempted or place < len(lost) / 2
            self.hold.recalled(group)

    def lead(self) -> None:
        """A leader is found on another link, in the same epoch if that is known."""
        lost, self.way = self.way, []
        self.hold.moved(self.truth, led=True)
        for group in lost:
            self.hold.recalled(group)
        self.way += self.hold.take()

    def step(self, name: str) -> None:
        if name == "node":
            self.known = self.truth
        elif name == "image":
            self.hold.moved(self.truth, led=True)
            self.way += self.hold.take()
        elif name == "retry":
            self.way += self.hold.take(retry=True)
        elif name == "expire":
            self.now_ms += 1
            self.hold.expire(self.now_ms)
        else:
            getattr(self, name)()

    def settle(self) -> None:
        """Node and gateway learn the truth, and groups on the wire arrive."""
        for _ in range(3):
            for name in ("node", "image", *["deliver"] * (len(self.way) + 2), "retry"):
                self.step(name)
        while self.way:
            self.deliver()


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_order_and_answers(steps: list[str]) -> None:
    cluster = Cluster()
    for name in steps:
        cluster.step(name)
        assert 0 <= cluster.ledger.nbytes <= cluster.ledger.bytes_max
        assert cluster.log == sorted(set(cluster.log)), "overtaken, or twice"
    cluster.settle()
    told = [index for index, _, _ in cluster.sink.results]
    assert sorted(told) == list(range(cluster.count)), "each hears once"
    assert cluster.log == [i for i, code in sorted(cluster.sink.codes.items()) if code == 0]
    assert (cluster.ledger.nbytes, cluster.hold.holding, cluster.hold.over) == (0, False, True)
