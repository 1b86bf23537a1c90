"""A session whose fetches two nodes answer, as a test says."""

import time
from contextlib import contextmanager
from itertools import count

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.core.fetch_session_cache import FetchSessionCache
from highwater.gateway.core.meters import RequestMeters
from highwater.gateway.core.session import Session
from highwater.gateway.core.shared_input import SharedInput
from highwater.gateway.core.standstill import Standstill
from highwater.gateway.core.turn import Turn
from highwater.gateway.data_plane.fetch_path import FetchPath
from highwater.gateway.data_plane.fetch_sessions import FetchSessions, end_sets
from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.table import RoutingTable
from highwater.kafka.framing import encode_request_header
from highwater.kafka.messages import fetch
from highwater.model.authorization import AllowAll
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.runtime.clock import boot_ms
from tests.support.controller_images import image_of, topic_state
from tests.unit.gateway.core.session_world import Wire


def session_cache(budget, *, slots=0, eviction_ms=120_000):
    """A cache of fetch sessions with ids 1, 2, and so on."""
    ids = count(1)
    return FetchSessionCache(
        slots=slots,
        eviction_ms=eviction_ms,
        budget=budget,
        new_id=lambda _first, _last: next(ids),
        ended=end_sets,
    )


def fetch_path(budget=None, *, cache=None, authorizer=None):
    """A Fetch path with sessions of this cache; without one, there is no room for sessions."""
    authorizer = authorizer or AllowAll()
    cache = session_cache(budget) if cache is None else cache
    return FetchPath(authorizer, FetchSessions(authorizer, cache))


class Link:
    def __init__(self):
        self.works, self.cancelled, self.ended = [], [], []

    def fetch(self, work):
        self.works.append(work)

    def cancel_fetch(self, work):
        work.cancelled = True
        self.cancelled.append(work)

    def end_fetch_set(self, fetch_set):
        if fetch_set.known_by(self):
            self.ended.append(fetch_set)
        fetch_set.forget()

    def answer(self, *results):
        work = self.works.pop(0)
        work.results = list(results)
        work.done(work)


class World:
    def __init__(self):
        self.due = []
        self.links = {1: Link(), 2: Link()}
        self.wire = Wire()
        routing = self.routing = RoutingTable(self.links.get)
        routing.apply(image_of(topics=[topic_state("orders", [(1,), (2,), (3,), (1,)])]))
        self.shared = SharedInput(
            standstill=Standstill(boot_ms),
            turn=Turn(self.due.append, time.monotonic_ns),
            budget=MemoryBudget(1 << 20),
            meters=RequestMeters(),
            frame_bytes_max=1 << 20,
            in_flight_bytes_max=1 << 20,
        )
        peer = Peer(instance=DEFAULT_INSTANCE, node=None, host="", port=0)
        client = ClientInfo(peer, routing.topics_of(DEFAULT_INSTANCE))
        self.session = Session(shared=self.shared, handler=self, wire=self.wire, client=client)
        self.wire.session = self.session
        self.authorize(AllowAll())

    def authorize(self, authorizer, **settings):
        """Begin a Fetch path without sessions, which asks this authorizer."""
        self.cache = session_cache(self.shared.budget, **settings)
        self.fetch = fetch_path(cache=self.cache, authorizer=authorizer).start

    def send(self, frame):
        data = len(frame).to_bytes(4, "big") + frame
        self.session.get_buffer(-1)[: len(data)] = data
        self.session.buffer_updated(len(data))

    def reply(self, version):
        """(correlation id, partitions as the client sees them) of the only reply."""
        while self.due:
            self.due.pop(0)()
        frame = b""
        for part in self.wire.sent:
            if type(part) is bytes:
                frame += part
            else:
                frame += part.data
                part.release()
        self.wire.sent.clear()
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        response = fetch.decode_response(frame, 9 if version >= 12 else 8, version)
        return int.from_bytes(frame[4:8], "big"), [
            (p.partition_index, p.error_code, p.high_watermark, bytes(p.records or b""))
            for t in response.responses
            for p in t.partitions
        ]


@contextmanager
def world():
    """A world that must have given back all memory at its end."""
    made = World()
    yield made
    made.session.connection_closed()
    assert made.session.outstanding == 0
    assert made.shared.budget.used == 0


def stored(segment, position, length):
    part = segment.range(position, length)
    part.data = segment.data[position : position + length]
    return part


def two_nodes(min_bytes=1, max_bytes=50 << 20):
    """A request of version 11 for partitions 0 and 3 of node 1, and 1 of node 2."""
    request = fetch.FetchRequest(
        max_wait_ms=500,
        max_bytes=max_bytes,
        min_bytes=min_bytes,
        topics=[
            fetch.FetchRequestFetchTopic(
                topic="orders",
                partitions=[
                    fetch.FetchRequestFetchPartition(partition=n, partition_max_bytes=1000)
                    for n in (0, 1, 3)
                ],
            )
        ],
    )
    return bytearray(encode_request_header(1, 11, 5, "c") + fetch.encode_request(request, 11))
