"""Other requests of clients with quotas: their time counts, and their connections are muted."""

from types import SimpleNamespace

import pytest

from highwater.gateway.data_plane.produce_path import ProducePath
from highwater.gateway.requests.requests import Requests
from highwater.gateway.routing.client import ClientInfo
from highwater.gateway.routing.client import Peer as ClientPeer
from highwater.kafka.framing import encode_request_header
from highwater.kafka.messages import list_groups
from highwater.model.authorization import AllowAll
from highwater.model.ids import DEFAULT_INSTANCE
from highwater.model.steps import finish
from tests.unit.gateway.core.session_world import World
from tests.unit.gateway.data_plane.fetch_world import fetch_path
from tests.unit.gateway.handlers.fakes import FakeBackend
from tests.unit.gateway.quota.quota_world import Now, client_quotas, key


class Tasks:
    """Runs each task to its end at once."""

    def start(self, coroutine, *, name):
        with pytest.raises(StopIteration):
            coroutine.send(None)


@pytest.fixture
def w():
    world = World()
    world.now = Now()
    world.quotas = client_quotas(world.now)
    backend = FakeBackend()
    backend.links = {}
    path = fetch_path(world.shared.budget)
    requests = Requests(
        produce=ProducePath(AllowAll()),
        fetch=path,
        backend=backend,
        quotas=world.quotas,
        meters=world.shared.meters,
        tasks=Tasks(),
        log=SimpleNamespace(),
    )
    world.quotas.handle_by(requests, requests)
    world.peer = world.connect()
    world.peer.session.handler = requests
    where = ClientPeer(instance=DEFAULT_INSTANCE, node=None, host="10.0.0.1", port=1)
    world.peer.session.client = ClientInfo(where, backend.routing.topics_of(DEFAULT_INSTANCE))
    world.muted = []
    world.peer.wire.unmute_after = world.muted.append
    return world


def ask(w, client_id):
    """The throttle time of the answer."""
    request = list_groups.ListGroupsRequest()
    header = encode_request_header(list_groups.API_KEY, 4, 9, client_id)
    body = header + list_groups.encode_request(request, 4)
    w.peer.feed(len(body).to_bytes(4, "big") + body)
    w.run()
    reply = b"".join(w.peer.wire.sent)
    w.peer.wire.sent.clear()
    return list_groups.decode_response(reply, 9, 4).throttle_time_ms


def test_a_client_whose_requests_take_too_long_is_muted(w):
    finish(w.quotas.following({key(client="slow"): {"request_percentage": 1e-9}}, []))
    assert ask(w, "fast") == 0
    assert w.muted == []
    assert ask(w, "slow") == 1000
    assert w.muted == [1000]


def test_without_a_limit_of_time_nothing_is_measured(w):
    finish(w.quotas.following({key(client="slow"): {"producer_byte_rate": 1.0}}, []))
    assert ask(w, "slow") == 0
    assert w.peer.session.client.client_id == "slow"
    assert len(w.quotas.rates) == 0
