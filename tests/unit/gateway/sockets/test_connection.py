"""Between a connection's close and the end of its transport: late answers count once."""

import asyncio
import time

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.core.meters import RequestMeters
from highwater.gateway.core.reading import MUTED
from highwater.gateway.core.shared_input import SharedInput
from highwater.gateway.core.standstill import Standstill
from highwater.gateway.core.turn import Turn
from highwater.gateway.data_plane.fetch_path import WholeFetch
from highwater.gateway.routing.client import ClientInfo, Peer
from highwater.gateway.routing.near_nodes import NearNodes
from highwater.gateway.routing.table import InstanceTopics
from highwater.gateway.sockets.connection import Connection
from highwater.hop.fetch import FetchedPartition, FetchPartition, FetchWork
from highwater.kafka.messages import fetch
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.runtime.clock import boot_ms
from tests.unit.gateway.core.session_world import FETCH, METADATA, request
from tests.unit.gateway.wires import connected
from tests.unit.hop.sinks import TOPIC


class Link:
    def __init__(self):
        self.works, self.cancelled = [], []

    def fetch(self, work):
        self.works.append(work)

    def cancel_fetch(self, work):
        self.cancelled.append(work)


class FetchHandler:
    """Makes the reply that the Fetch path makes for a request of several partitions."""

    def __init__(self):
        self.link = Link()
        self.replies = []

    def fetch(self, session, frame):
        asked = fetch.FetchRequest(
            topics=[
                fetch.FetchRequestFetchTopic(
                    topic="t", partitions=[fetch.FetchRequestFetchPartition(partition=0)]
                )
            ]
        )
        reply = WholeFetch(session, len(frame), 4, 1, asked, None)
        session.expect(reply)
        work = FetchWork(
            instance=DEFAULT_INSTANCE,
            partitions=[FetchPartition(TOPIC, 0, -1, 0, -1, 100)],
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=100,
            isolation_level=0,
            done=reply.work_done,
        )
        reply.start(self.link, work, [0])
        self.link.fetch(work)
        self.replies.append(reply)


class Door:
    """Lets everybody in."""

    def __init__(self, inside):
        self.add, self.discard = inside.add, inside.discard

    def lets_in(self, _host):
        return True


async def connect(handler):
    loop = asyncio.get_running_loop()
    shared = SharedInput(
        standstill=Standstill(boot_ms),
        turn=Turn(loop.call_soon, time.monotonic_ns),
        budget=MemoryBudget(1 << 20),
        meters=RequestMeters(),
        frame_bytes_max=1 << 20,
        in_flight_bytes_max=1 << 20,
    )
    ours, theirs = await connected()
    connections = set()
    made = Connection(
        shared=shared,
        handler=handler,
        client=ClientInfo(
            Peer(instance=DEFAULT_INSTANCE, node=None, host="", port=0),
            InstanceTopics(NearNodes()),
        ),
        loop=loop,
        pool=None,
        door=Door(connections),
        on_shortage=lambda error: None,
    )
    await loop.connect_accepted_socket(lambda: made, ours)
    assert connections == {made}
    return made, theirs, connections


async def send(handler, theirs):
    await asyncio.get_running_loop().sock_sendall(theirs, request(FETCH, 1))
    async with asyncio.timeout(5):
        while not handler.replies:
            await asyncio.sleep(0.005)


def answer(handler):
    (work,) = handler.link.works
    work.results = [FetchedPartition(0, 1, 1, 0)]
    work.done(work)


async def lost(connections):
    async with asyncio.timeout(5):
        while connections:
            await asyncio.sleep(0.005)


async def test_an_answer_between_close_and_loss_counts_once():
    handler = FetchHandler()
    made, theirs, connections = await connect(handler)
    await send(handler, theirs)
    made.close("the test wants it")
    made.close("again")
    answer(handler)
    await lost(connections)
    assert made.close_reason == "the test wants it"
    assert (made.outstanding, made.in_flight_bytes, made.shared.budget.used) == (0, 0, 0)
    assert handler.link.cancelled == []
    theirs.close()


async def test_a_client_at_rest_is_left_in_that_moment():
    """Without a turn of the loop: what it sends until it knows would get no answer."""
    handler = FetchHandler()
    made, theirs, connections = await connect(handler)
    assert made.at_rest
    made.leave("the test wants it")
    assert theirs.recv(1) == b""
    await lost(connections)
    assert made.close_reason == "the test wants it"
    theirs.close()


async def test_a_client_that_waits_for_a_fetch_is_at_rest():
    """A consumer that waits for records sends its next fetch at once; it could never be left otherwise."""
    handler = FetchHandler()
    made, theirs, connections = await connect(handler)
    await send(handler, theirs)
    assert made.outstanding
    assert made.at_rest
    theirs.send(b"\0")
    assert not made.at_rest, "something else is here"
    made.leave("the test wants it")
    await lost(connections)
    theirs.close()


async def test_a_client_whose_request_waits_behind_a_fetch_is_not_at_rest():
    """A whole request is here that no fetch is: if the connection ended now, it would get no answer."""
    handler = FetchHandler()
    made, theirs, connections = await connect(handler)
    await send(handler, theirs)
    assert made.only_fetches
    theirs.send(request(METADATA, 2))
    async with asyncio.timeout(5):
        while made.frames_received < 2:
            await asyncio.sleep(0.005)
    assert not made.only_fetches
    assert not made.at_rest
    theirs.close()
    await lost(connections)
    assert (made.outstanding, made.in_flight_bytes, made.shared.budget.used) == (0, 0, 0)


async def test_a_client_that_leaves_cancels_its_fetch():
    handler = FetchHandler()
    made, theirs, connections = await connect(handler)
    await send(handler, theirs)
    theirs.close()
    await lost(connections)
    assert handler.link.cancelled == handler.link.works
    assert (made.outstanding, made.in_flight_bytes, made.shared.budget.used) == (0, 0, 0)


async def test_muting_pauses_and_comes_to_an_end():
    handler = FetchHandler()
    made, theirs, connections = await connect(handler)
    made.pause(MUTED)
    made.unmute_after(100)
    made.unmute_after(10)
    await asyncio.get_running_loop().sock_sendall(theirs, request(FETCH, 1))
    await asyncio.sleep(0.05)
    assert handler.replies == [], "the later time counts"
    await send(handler, theirs)
    theirs.close()
    await lost(connections)


async def test_a_throttle_time_can_end_early():
    handler = FetchHandler()
    made, theirs, connections = await connect(handler)
    made.mute(60_000)
    made.unmute_now()
    assert made.reading
    made.mute(50)
    assert not made.reading, "a later time counts again"
    await asyncio.sleep(0.1)
    assert made.reading
    made.pause(MUTED)
    made.unmute_now()
    assert not made.reading, "no throttle time was running"
    made.close("the test ends")
    theirs.close()
    await lost(connections)


async def test_the_address_of_the_socket_is_the_client_s():
    made, theirs, connections = await connect(FetchHandler())
    address = theirs.getsockname()
    peer = made.client.peer
    assert ((peer.host, peer.port), made.client.requester.host) == (address, address[0])
    theirs.close()
    await lost(connections)
