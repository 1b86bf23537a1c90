"""Requests that close their connection are refused and counted, with limited log lines."""

from types import SimpleNamespace

import pytest

from highwater.gateway.data_plane.produce_path import ProducePath
from highwater.gateway.requests.requests import Requests
from highwater.model.authorization import AllowAll
from highwater.runtime.log_limit import REPEAT_MS
from tests.unit.gateway.core.session_world import World
from tests.unit.gateway.data_plane.fetch_world import fetch_path
from tests.unit.gateway.handlers.fakes import FakeBackend
from tests.unit.gateway.quota.quota_world import client_quotas


class Tasks:
    """Runs each task to its end at once; it must not wait for anything."""

    def start(self, coroutine, *, name):
        with pytest.raises(StopIteration):
            coroutine.send(None)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"\x00\x03\x00\x09" + bytes(4) + b"\x7f\xff", id="malformed header"),
        pytest.param(b"\x03\xe7\x00\x00" + bytes(4) + b"\xff\xff", id="unknown key"),
    ],
)
def test_refusals_close_each_connection_and_are_logged_once_a_minute(frame):
    world = World()
    lines = []
    log = SimpleNamespace(info=lambda event, **values: lines.append((event, values)))
    backend = FakeBackend()
    meters = world.shared.meters
    requests = Requests(
        produce=ProducePath(AllowAll()),
        fetch=fetch_path(world.shared.budget),
        backend=backend,
        quotas=client_quotas(),
        meters=meters,
        tasks=Tasks(),
        log=log,
    )
    count = 50
    for _ in range(count):
        peer = world.connect()
        peer.session.client = SimpleNamespace(peer=None, client_id="")
        peer.session.handler = requests
        peer.feed(len(frame).to_bytes(4, "big") + frame)
        assert peer.wire.closed is not None
        peer.lose()
    assert [event for event, _ in lines] == ["request_refused"]
    assert meters.refused == count
    assert world.budget.used == 0
    backend.clock.now_ms += REPEAT_MS
    peer = world.connect()
    peer.session.handler = requests
    peer.session.client = SimpleNamespace(peer=None, client_id="")
    peer.feed(len(frame).to_bytes(4, "big") + frame)
    assert lines[1:] == [("request_refused", {**lines[0][1], "repeated": count - 1})]


def test_a_bug_in_an_answer_ends_its_connection_and_gives_back_its_memory(monkeypatch):
    async def dispatch(*_):
        raise KeyError("a bug")

    monkeypatch.setattr("highwater.gateway.requests.requests.dispatch", dispatch)
    world = World()
    meters = world.shared.meters
    log = SimpleNamespace(error=lambda *_, **__: None)
    peer = world.connect()
    peer.session.client = SimpleNamespace(peer=None, client_id="")
    peer.session.handler = Requests(
        produce=ProducePath(AllowAll()),
        fetch=fetch_path(world.shared.budget),
        backend=FakeBackend(),
        quotas=client_quotas(),
        meters=meters,
        tasks=Tasks(),
        log=log,
    )
    frame = b"\x00\x03\x00\x01" + bytes(4) + b"\xff\xff"
    peer.feed(len(frame).to_bytes(4, "big") + frame)
    assert peer.wire.closed == "the reply could not be made"
    peer.lose()
    assert (meters.failed_replies, world.budget.used, peer.session.outstanding) == (1, 0, 0)


def test_a_reply_that_fails_ends_its_connection_and_is_counted():
    world = World()
    lines = []
    log = SimpleNamespace(error=lambda event, **values: lines.append((event, values["exc_info"])))
    meters = world.shared.meters
    requests = Requests(
        produce=ProducePath(AllowAll()),
        fetch=fetch_path(world.shared.budget),
        backend=FakeBackend(),
        quotas=client_quotas(),
        meters=meters,
        tasks=Tasks(),
        log=log,
    )
    peer, other = world.connect(), world.connect()
    bug = RuntimeError("a bug")
    for _ in range(2):
        requests.reply_failed(peer.session, bug)
    assert (peer.wire.closed, other.wire.closed) == ("the reply could not be made", None)
    assert meters.failed_replies == 2
    assert lines == [("reply_failed", bug)], "a line that is repeated is counted"
