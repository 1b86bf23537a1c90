"""Requests that close their connection are refused and counted, with limited log lines."""

from types import SimpleNamespace

import pytest

from highwater.gateway.core.standstill import STANDSTILL_MS, Standstill
from highwater.gateway.data_plane.produce_path import ProducePath
from highwater.gateway.handling.never_late import NEVER_LATE
from highwater.gateway.requests.requests import Requests
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.framing import encode_request_header
from highwater.model.authorization import ANONYMOUS, AllowAll, Principal
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
        peer.session.client = SimpleNamespace(peer=None, client_id="", login=None)
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
    peer.session.client = SimpleNamespace(peer=None, client_id="", login=None)
    peer.feed(len(frame).to_bytes(4, "big") + frame)
    assert lines[1:] == [("request_refused", {**lines[0][1], "repeated": count - 1})]


@pytest.mark.parametrize(
    ("api_key", "logs_in", "principal", "shown"),
    [
        pytest.param(3, False, ANONYMOUS, True, id="no login is asked for"),
        pytest.param(3, True, Principal("User", "alice"), True, id="after the login"),
        pytest.param(3, True, ANONYMOUS, False, id="before the login"),
        pytest.param(36, True, Principal("User", "alice"), False, id="a login again"),
    ],
)
def test_what_may_be_a_secret_is_not_logged_as_the_client_s_id(api_key, logs_in, principal, shown):
    """A frame with wrong lengths has a token where its client id should be."""
    world = World()
    lines = []
    requests = Requests(
        produce=ProducePath(AllowAll()),
        fetch=fetch_path(world.shared.budget),
        backend=FakeBackend(),
        quotas=client_quotas(),
        meters=world.shared.meters,
        tasks=Tasks(),
        log=SimpleNamespace(info=lambda _event, **values: lines.append(values)),
    )
    peer = world.connect()
    peer.session.client = SimpleNamespace(
        peer=None,
        client_id="",
        login=object() if logs_in else None,
        requester=SimpleNamespace(principal=principal),
    )
    peer.session.handler = requests
    token = b"auth=Bearer eyJhbGciOi"
    frame = api_key.to_bytes(2, "big") + b"\x00\x01" + bytes(4) + b"\x00\x16" + token + b"\x7f"
    peer.feed(len(frame).to_bytes(4, "big") + frame)
    assert [line["client"] for line in lines] == [token.decode() if shown else ""]
    peer.lose()


def test_a_bug_in_an_answer_ends_its_connection_and_gives_back_its_memory(monkeypatch):
    async def dispatch(*_):
        raise KeyError("a bug")

    monkeypatch.setattr("highwater.gateway.requests.requests.dispatch", dispatch)
    world = World()
    meters = world.shared.meters
    log = SimpleNamespace(error=lambda *_, **__: None)
    peer = world.connect()
    peer.session.client = SimpleNamespace(peer=None, client_id="", login=None)
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


def frame_of(api_key):
    """A request of version 0 without a body."""
    frame = encode_request_header(api_key, 0, 1, "client")
    return len(frame).to_bytes(4, "big") + frame


class Noted:
    """Notes which requests were taken to their handlers."""

    def __init__(self):
        self.names = []

    def start(self, coroutine, *, name):
        coroutine.close()
        self.names.append(name)


class Paused:
    """A gateway whose process may stand still; its clients connect and send before, in or after that."""

    def __init__(self):
        self.ms = 10_000
        self.world = World()
        self.world.shared.standstill = Standstill(lambda: self.ms)
        self.tasks = Noted()
        self.lines = []
        self.requests = Requests(
            produce=ProducePath(AllowAll()),
            fetch=fetch_path(self.world.shared.budget),
            backend=FakeBackend(),
            quotas=client_quotas(),
            meters=self.world.shared.meters,
            tasks=self.tasks,
            log=SimpleNamespace(info=lambda _event, **values: self.lines.append(values["error"])),
        )

    def connect(self):
        peer = self.world.connect()
        peer.session.client = SimpleNamespace(accepted_ms=self.ms, watched=False, client_id="")
        peer.session.handler = self.requests
        return peer


@pytest.mark.parametrize("api_key", sorted(NEVER_LATE))
def test_what_must_not_come_late_and_may_have_waited_here_closes_its_connection(api_key):
    """Bytes that lay in the kernel while the process was stopped, and their clients have gone on."""
    s = Paused()
    old = s.connect()
    s.ms += STANDSTILL_MS
    new = s.connect()
    for peer in (old, new):
        peer.feed(frame_of(api_key))
    assert s.tasks.names == []
    assert [peer.wire.closed for peer in (old, new)] == s.lines * 2
    assert s.world.shared.meters.refused == 2
    old.lose()
    new.lose()
    assert s.world.budget.used == 0
    s.ms += 1_000
    again = s.connect()
    again.feed(frame_of(api_key))
    assert (again.wire.closed, len(s.tasks.names)) == (None, 1)
    again.lose()


def test_other_calls_may_have_waited():
    s = Paused()
    peer = s.connect()
    s.ms += STANDSTILL_MS
    peer.feed(frame_of(ApiKey.HEARTBEAT))
    assert (peer.wire.closed, s.tasks.names) == (None, ["api-12"])
    peer.lose()


def test_the_kernel_watches_the_connections_of_such_calls():
    s = Paused()
    peer = s.connect()
    peer.feed(frame_of(ApiKey.HEARTBEAT))
    assert peer.wire.watched == 0
    peer.lose()
    peer = s.connect()
    for _ in range(3):  # As the session would, one after the other.
        s.requests.other(peer.session, bytearray(frame_of(ApiKey.OFFSET_COMMIT)[4:]))
    assert peer.wire.watched == 1
    peer.lose()
