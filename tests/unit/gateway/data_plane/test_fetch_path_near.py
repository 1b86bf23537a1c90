"""Fetches of clients that name their rack: which node is asked, and what the client is told (KIP-392)."""

from dataclasses import replace

import pytest

from highwater.hop.fetch import FetchedPartition
from highwater.kafka.framing import encode_request_header
from highwater.kafka.messages import fetch
from highwater.model.cluster import GatewayState
from highwater.model.ids import NodeId
from tests.support.controller_images import image_of, node_state, topic_state
from tests.unit.gateway.core.shape_frames import topic_id_of
from tests.unit.gateway.data_plane.session_client import SessionWorld, found

VERSIONS = pytest.mark.parametrize("version", [11, 12, 13, 18])
LEADER, FOLLOWER = 1, 2


@pytest.fixture
def w():
    """Partition 0 of `orders` on nodes 1 (rack a, leads) and 2 (rack b), partition 1 on node 1."""
    world = SessionWorld()
    nodes = [node_state(LEADER, rack="a"), node_state(FOLLOWER, rack="b")]
    topic = topic_state("orders", [(LEADER, FOLLOWER), (LEADER,)])
    gateway = GatewayState(gateway_id="g", host="h", port=9092, single_port=False)
    world.routing.apply(
        replace(
            image_of(nodes, [topic]),
            gateways={"g": gateway},
            node_gateways={NodeId(LEADER): "g", NodeId(FOLLOWER): "g"},
        )
    )
    yield world
    world.session.connection_closed()
    assert (world.session.outstanding, world.shared.budget.used) == (0, 0)


def at_port_of(world, node):
    client = world.session.client
    client.peer = replace(client.peer, node=NodeId(node))


def ask(world, version, offset, *, rack="b", partitions=(0,), epoch=-1, session_id=0):
    by_id = version >= 13
    name, topic_id = ("", topic_id_of("orders")) if by_id else ("orders", bytes(16))
    asked = [
        fetch.FetchRequestFetchPartition(partition=p, fetch_offset=offset, partition_max_bytes=99)
        for p in partitions
    ]
    request = fetch.FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session_id,
        session_epoch=epoch,
        topics=[fetch.FetchRequestFetchTopic(name, topic_id, asked)] if asked else [],
        rack_id=rack,
    )
    header = encode_request_header(fetch.API_KEY, version, 5, "client")
    world.send(bytearray(header + fetch.encode_request(request, version)))


def preferred(offset=9):
    result = FetchedPartition(0, offset, offset, 0)
    result.preferred_replica = NodeId(FOLLOWER)
    return result


def told(world, version):
    response = world.response(version)
    return [
        (p.partition_index, p.error_code, p.preferred_read_replica, bytes(p.records or b""))
        for t in response.responses
        for p in t.partitions
    ]


@VERSIONS
def test_the_leader_hears_who_is_near_and_its_choice_is_told(w, version):
    at_port_of(w, LEADER)
    for offset in range(3):  # The first one the long way, then the short way.
        ask(w, version, offset)
        (work,) = w.links[LEADER].works
        assert (work.near, work.partitions[0].fetch_offset) == ((FOLLOWER,), offset)
        w.links[LEADER].answer(preferred())
        assert told(w, version) == [(0, 0, FOLLOWER, b"")]
    ask(w, version, 3)
    w.links[LEADER].answer(found(4, b"records"))
    assert told(w, version) == [(0, 0, -1, b"records")]


@VERSIONS
def test_at_a_followers_port_the_follower_is_asked(w, version):
    at_port_of(w, FOLLOWER)
    for offset in range(3):
        ask(w, version, offset)
        (work,) = w.links[FOLLOWER].works
        assert (work.near, work.partitions[0].fetch_offset) == ((FOLLOWER,), offset)
        w.links[FOLLOWER].answer(found(offset + 1, b"records"))
        assert told(w, version) == [(0, 0, -1, b"records")]
    assert not w.links[LEADER].works


@VERSIONS
@pytest.mark.parametrize("rack", ["", "a", "elsewhere"])
def test_clients_that_are_not_near_it_get_the_leader(w, version, rack):
    at_port_of(w, FOLLOWER)
    for offset in range(2):
        ask(w, version, offset, rack=rack)
        (work,) = w.links[LEADER].works
        assert work.near == ((LEADER,) if rack == "a" else ())
        w.links[LEADER].answer(found(offset + 1, b"records"))
        assert told(w, version) == [(0, 0, -1, b"records")]


def test_partitions_without_a_replica_there_go_to_their_leader(w):
    at_port_of(w, FOLLOWER)
    ask(w, 12, 5, partitions=(0, 1))
    assert [work.partitions[0].partition for n in (2, 1) for work in w.links[n].works] == [0, 1]
    w.links[FOLLOWER].answer(found(6, b"near"))
    w.links[LEADER].answer(found(6, b"far"))
    assert told(w, 12) == [(0, 0, -1, b"near"), (1, 0, -1, b"far")]


def test_when_the_follower_is_gone_its_port_stands_for_the_leader_again(w):
    at_port_of(w, FOLLOWER)
    ask(w, 12, 0)
    w.links[FOLLOWER].answer(found(1, b"near"))
    told(w, 12)
    image = w.routing.image
    fenced = replace(image.nodes[NodeId(FOLLOWER)], fenced=True)
    w.routing.apply(replace(image, revision=101, nodes={**image.nodes, NodeId(FOLLOWER): fenced}))
    ask(w, 12, 1)
    (work,) = w.links[LEADER].works
    assert work.near == ()
    w.links[LEADER].answer(found(2, b"far"))
    assert told(w, 12) == [(0, 0, -1, b"far")]


@VERSIONS
@pytest.mark.parametrize("partitions", [(0,), (0, 1)])
def test_in_a_session_too(w, version, partitions):
    """The follower that is named is news; and a session goes where the client's rack says."""
    at_port_of(w, LEADER)
    ask(w, version, 0, partitions=partitions, epoch=0)
    w.links[LEADER].answer(*[found(9) for _ in partitions])
    session_id = w.response(version).session_id
    assert session_id > 0
    for epoch in (1, 2, 3):
        ask(w, version, 0, partitions=(), epoch=epoch, session_id=session_id)
        (work,) = w.links[LEADER].works
        assert work.near == (FOLLOWER,)
        w.links[LEADER].answer(preferred(), *[found(9) for _ in partitions[1:]])
        assert told(w, version) == [(0, 0, FOLLOWER, b"")]


@VERSIONS
def test_a_session_at_a_followers_port_follows_the_image(w, version):
    at_port_of(w, FOLLOWER)
    ask(w, version, 0, epoch=0)
    w.links[FOLLOWER].answer(found(9))
    session_id = w.response(version).session_id
    for epoch in (1, 2):
        ask(w, version, 0, partitions=(), epoch=epoch, session_id=session_id)
        w.links[FOLLOWER].answer(found(9 + epoch))
        assert told(w, version) == [(0, 0, -1, b"")]
    image = w.routing.image
    fenced = replace(image.nodes[NodeId(FOLLOWER)], fenced=True)
    w.routing.apply(replace(image, revision=101, nodes={**image.nodes, NodeId(FOLLOWER): fenced}))
    ask(w, version, 0, partitions=(), epoch=3, session_id=session_id)
    w.links[LEADER].answer(found(12))
    assert told(w, version) == [(0, 0, -1, b"")]
