"""A session whose batches one node takes, as a test says."""

from contextlib import contextmanager

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.core.meters import RequestMeters
from highwater.gateway.core.session import Session
from highwater.gateway.core.shared_input import SharedInput
from highwater.gateway.core.standstill import Standstill
from highwater.gateway.core.turn import Turn
from highwater.gateway.data_plane.produce_path import ProducePath
from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.table import RoutingTable
from highwater.kafka.messages import produce
from highwater.model.authorization import AllowAll
from highwater.model.ids import DEFAULT_INSTANCE, NO_TOPIC_ID
from highwater.runtime.clock import boot_ms
from tests.support.controller_images import image_of, topic_state
from tests.unit.gateway.core.session_world import Wire


class Link:
    """Keeps appended batches until the test answers."""

    def __init__(self):
        self.batches = []
        self.transactions = []
        """Of all batches so far."""

    def append(self, route, acks, batch, nbytes, sink, index, deadline_ms, transaction=None):
        assert nbytes == len(batch)
        self.transactions.append(transaction)
        self.batches.append((route, acks, bytes(batch), sink, index, deadline_ms))

    def answer(self, base_offset=0, failure=None, throttle_ms=0):
        _route, _acks, _, sink, index, _ = self.batches.pop(0)
        group = Group()
        group.throttle_ms = throttle_ms
        sink.append_done(index, base_offset, group, failure)


class Group:
    log_append_time_ms, log_start_offset, throttle_ms = -1, 3, 0


class World:
    def __init__(self):
        self.due = []
        self.link = Link()
        self.wire = Wire()
        self.routing = RoutingTable(lambda node: self.link if node == 1 else None)
        self.topics = [
            topic_state("orders", [(1,), (1,), (2,)]),
            topic_state("other", [(1,)]),
        ]
        self.routing.apply(image_of(topics=self.topics))
        self.shared = SharedInput(
            standstill=Standstill(boot_ms),
            turn=Turn(self.due.append, lambda: 1000 * 10**6),
            budget=MemoryBudget(1 << 20),
            meters=RequestMeters(),
            frame_bytes_max=1 << 20,
            in_flight_bytes_max=1 << 20,
        )
        self.peer = Peer(instance=DEFAULT_INSTANCE, node=None, host="", port=0)
        self.session = Session(shared=self.shared, handler=self, wire=self.wire, client=self)
        self.wire.session = self.session
        self.produce = ProducePath(AllowAll()).start
        self.muted = []
        self.wire.unmute_after = self.muted.append

    @property
    def topics_of_client(self):
        return self.routing.topics_of(DEFAULT_INSTANCE)

    def name_of(self, answered):
        """The topic's name, also if the answer has its id."""
        if answered.topic_id == NO_TOPIC_ID:
            return answered.name
        assert answered.name == ""
        return next(
            (t.name for t in self.topics if t.topic_id == answered.topic_id), answered.topic_id
        )

    def send(self, frame):
        data = len(frame).to_bytes(4, "big") + frame
        self.session.get_buffer(-1)[: len(data)] = data
        self.session.buffer_updated(len(data))

    def run(self):
        while self.due:
            self.due.pop(0)()

    def replies(self, version):
        """Decoded replies: (correlation id, partition responses)."""
        self.run()
        found = []
        for frame in self.wire.sent:
            assert int.from_bytes(frame[:4], "big") == len(frame) - 4
            response = produce.decode_response(frame, 9 if version >= 9 else 8, version)
            partitions = [
                (self.name_of(t), p.index, p.error_code, p.base_offset)
                for t in response.responses
                for p in t.partition_responses
            ]
            found.append((int.from_bytes(frame[4:8], "big"), partitions))
        self.wire.sent.clear()
        return found


@contextmanager
def world():
    """A world, in which nothing may be left over at the end."""
    made = World()
    made.session.client = ClientInfo(made.peer, made.topics_of_client)
    yield made
    while made.link.batches:
        made.link.answer()
    made.run()
    assert made.session.outstanding == 0
    assert made.shared.budget.used == 0
