import asyncio

import pytest

from highwater.hop.transport import MESSAGE_BYTES_MAX
from highwater.http2.flow_window import WINDOW_INITIAL
from highwater.http2.frames import DATA, HEADERS, RST_STREAM, UINT32, frame, window_update_frame
from highwater.http2.output import OUTGOING_BYTES
from highwater.rpc.message_memory import AssemblyBudget
from highwater.rpc.messages import (
    PREFIX,
    PREFIX_BYTES,
    UNSENT_BYTES_MAX,
    UNSENT_CONNECTION_BYTES_MAX,
    UNSENT_MESSAGES_MAX,
)
from highwater.rpc.ports import ServerCallbacks
from highwater.rpc.server_call import ServerCall
from highwater.rpc.status import StatusCode
from tests.support.http2_wire import REQUEST, RawClient

MIB = 1 << 20


class Server:
    message_bytes_max = 1000

    def __init__(self):
        self.failures = []
        self.ended = 0

    def on_failure(self, name, error):
        self.failures.append((name, type(error)))

    def call_ended(self, _call):
        self.ended += 1


class Scene:
    """One call of a client that the test plays."""

    def __init__(self, handler=None, fields=(), assembly=None):
        self.server, self.client = Server(), RawClient()
        self.assembly = assembly or AssemblyBudget(10_000)
        self.messages, self.ends, self.half_closes = [], [], 0
        self.call = None
        self.handler = handler or self._handle
        self.client.end.on_request = self._request
        self.client.end.feed(self.client.headers(1, [*REQUEST, *fields]))

    @property
    def kept_bytes(self):
        return self.client.end.connection.output.kept_bytes

    def another(self):
        """The next call of the same client."""
        self.client.end.feed(
            self.client.headers(self.client.end.connection._table.last_peer_id + 2)
        )
        return self.call

    def _request(self, stream, request):
        self.call = ServerCall(
            self.server,
            stream,
            request,
            assembly=self.assembly,
            loop=asyncio.get_running_loop(),
        )
        self.call.begin(request, self.handler if self.handler != "none" else None)

    def _handle(self, _call):
        return ServerCallbacks(
            on_message=lambda message: self.messages.append(bytes(message)),
            on_half_close=self._half_closed,
            on_end=self.ends.append,
        )

    def _half_closed(self):
        self.half_closes += 1

    def sent(self):
        """Sections and payloads that the client sees."""
        seen = []
        for kind, flags, _, payload in self.client.ask(b""):
            if kind == HEADERS:
                seen.append((dict(self.client.decoder.decode(payload)), bool(flags & 1)))
            elif kind == DATA:
                seen.append(payload)
            elif kind == RST_STREAM:
                seen.append(UINT32.unpack(payload)[0])
        return seen


@pytest.fixture
async def scene():
    return Scene()


def message(payload):
    return PREFIX.pack(0, len(payload)) + payload


def _ignore(_message):
    """As a handler that would keep it."""


def _never(_message):
    raise AssertionError("a message behind the end")


MORE_WINDOW = window_update_frame(0, 0xF0000) + window_update_frame(1, 0xF0000)
RESPONSE = {":status": "200", "content-type": "application/grpc"}


async def test_a_whole_call(scene):
    scene.client.ask(frame(0, 1, 1, message(b"a") + message(b"b")))
    assert scene.messages == [b"a", b"b"]
    assert scene.half_closes == 1
    scene.call.send(b"x")
    scene.call.finish(metadata=[("k", "v")])
    assert scene.sent() == [
        (RESPONSE, False),
        message(b"x"),
        ({"grpc-status": "0", "k": "v"}, True),
    ]
    assert [status.code for status in scene.ends] == [StatusCode.OK]
    assert scene.server.ended == 1


async def test_trailers_only(scene):
    scene.call.finish(StatusCode.NOT_FOUND, "no töpic")
    scene.call.finish(StatusCode.OK)
    [(fields, end), reset] = scene.sent()
    assert fields == {**RESPONSE, "grpc-status": "5", "grpc-message": "no t%C3%B6pic"}
    assert end
    assert reset == 0


async def test_initial_metadata_goes_once(scene):
    scene.call.send_initial_metadata([("first", "yes")])
    scene.call.send_initial_metadata([("again", "no")])
    scene.call.send(b"")
    assert scene.sent() == [({**RESPONSE, "first": "yes"}, False), message(b"")]


async def test_metadata_and_a_deadline_of_the_client():
    scene = Scene(fields=[("k", "v"), ("b-bin", "AA"), ("grpc-timeout", "20m")])
    assert scene.call.metadata == [("k", "v"), ("b-bin", b"\0")]
    assert scene.call.deadline_s - asyncio.get_running_loop().time() < 0.021
    await asyncio.sleep(0.05)
    assert [status.code for status in scene.ends] == [StatusCode.DEADLINE_EXCEEDED]
    assert scene.sent()[0][0]["grpc-status"] == "4"


@pytest.mark.parametrize(
    ("handler", "field", "status"),
    [
        ("none", ("k", "v"), "12"),
        (None, ("grpc-encoding", "gzip"), "12"),
        (None, ("grpc-timeout", "soon"), "13"),
        (None, ("x-bin", "!"), "13"),
    ],
)
async def test_what_is_refused(handler, field, status):
    scene = Scene(handler, [field])
    fields = [section for section in scene.sent() if isinstance(section, tuple)]
    assert fields[-1][0]["grpc-status"] == status
    assert scene.messages == []
    assert scene.server.ended == 1


async def test_bugs_of_the_handler_and_its_callbacks():
    def fail(*_):
        raise ZeroDivisionError

    for handler in (fail, lambda _call: ServerCallbacks(on_message=fail)):
        scene = Scene(handler)
        scene.client.ask(frame(0, 0, 1, message(b"a")))
        assert scene.server.failures == [("/test.Test/Call", ZeroDivisionError)]
        assert scene.server.ended == 1


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (lambda call: call.finish(StatusCode.UNAVAILABLE), StatusCode.UNAVAILABLE),
        (lambda call: call.cancel(), StatusCode.CANCELLED),
    ],
)
async def test_a_handler_that_ends_its_call_itself_hears_of_the_end(end, code):
    heard = []

    def handler(call):
        end(call)
        heard.append("returned")
        return ServerCallbacks(
            on_message=heard.append, on_end=lambda status: heard.append(status.code)
        )

    scene = Scene(handler)
    scene.client.ask(frame(0, 1, 1, message(b"late")))
    scene.client.end.connection.lost("gone")
    assert heard == ["returned", code]
    assert scene.server.ended == 1


async def test_a_handler_that_ends_its_call_behind_messages_hears_when_they_are_sent():
    ends = []

    def handler(call):
        call.send(bytes(100_000))
        call.finish()
        return ServerCallbacks(on_message=_never, on_end=ends.append)

    scene = Scene(handler)
    assert ends == []
    scene.client.ask(MORE_WINDOW)
    assert [status.code for status in ends] == [StatusCode.OK]


async def test_a_bug_in_the_end_of_a_call_that_its_handler_has_ended():
    def fail(_status):
        raise ZeroDivisionError

    def handler(call):
        call.finish()
        return ServerCallbacks(on_message=_never, on_end=fail)

    scene = Scene(handler)
    assert scene.server.failures == [("/test.Test/Call", ZeroDivisionError)]
    assert scene.server.ended == 1


def keep(_call):
    return ServerCallbacks(on_message=_ignore, keeps_messages=True)


async def test_messages_that_are_kept_count_until_their_call_ends():
    assembly = AssemblyBudget(100)
    first, second, third = (Scene(keep, assembly=assembly) for _ in range(3))
    first.client.ask(frame(0, 0, 1, message(bytes(60))))
    second.client.end.feed(frame(0, 0, 1, message(bytes(41))))
    [(fields, end), reset] = second.sent()
    assert (fields["grpc-status"], end, reset) == ("8", True, 0)
    third.client.ask(frame(0, 1, 1, message(bytes(40))))
    assert not assembly.take(1), "half-closed, but not over"
    first.call.finish()
    third.client.end.connection.lost("gone")
    assert assembly.take(100)


async def test_messages_that_are_kept_and_those_that_are_half_here_count_together():
    assembly = AssemblyBudget(100)
    kept, half = Scene(keep, assembly=assembly), Scene(assembly=assembly)
    half.client.ask(frame(0, 0, 1, message(bytes(60))[:20]))
    kept.client.end.feed(frame(0, 0, 1, message(bytes(41))))
    assert kept.sent()[0][0]["grpc-status"] == "8"
    half.client.ask(frame(0, 0, 1, message(bytes(60))[20:]))
    assert half.messages == [bytes(60)]
    assert assembly.take(100), "handed on and not kept"


async def test_a_kept_message_that_comes_in_pieces_counts_once():
    assembly = AssemblyBudget(100)
    scene = Scene(keep, assembly=assembly)
    scene.client.ask(frame(0, 0, 1, message(bytes(60))[:20]))
    scene.client.ask(frame(0, 0, 1, message(bytes(60))[20:]))
    assert assembly.take(40)
    assert not assembly.take(1)


async def test_a_handler_that_ends_its_call_with_a_message_gives_it_back_once():
    assembly = AssemblyBudget(100)

    def refuse(call):
        return ServerCallbacks(on_message=lambda _message: call.finish(), keeps_messages=True)

    scene = Scene(refuse, assembly=assembly)
    scene.client.ask(frame(0, 0, 1, message(bytes(60)) + message(bytes(60))))
    assert assembly.take(100)
    assert not assembly.take(1)


async def test_a_client_that_cancels(scene):
    scene.client.ask(frame(RST_STREAM, 0, 1, UINT32.pack(8)))
    assert [status.code for status in scene.ends] == [StatusCode.CANCELLED]
    scene.call.send(b"late")
    scene.call.finish()
    assert scene.sent() == []
    assert scene.server.ended == 1


async def test_a_lost_connection(scene):
    scene.client.end.connection.lost("gone")
    assert [(status.code, status.details) for status in scene.ends] == [
        (StatusCode.UNAVAILABLE, "gone")
    ]


async def test_a_message_that_is_too_large(scene):
    scene.client.ask(frame(0, 0, 1, PREFIX.pack(0, 1001)))
    assert [status.code for status in scene.ends] == [StatusCode.RESOURCE_EXHAUSTED]


async def test_trailers_wait_for_messages(scene):
    scene.call.send(bytes(100_000))
    scene.call.finish()
    assert scene.ends == []
    assert scene.call.unsent_bytes > 0
    scene.client.ask(MORE_WINDOW)
    assert [status.code for status in scene.ends] == [StatusCode.OK]


async def test_a_failure_does_not(scene):
    scene.call.send(bytes(100_000))
    scene.call.fail(StatusCode.UNAVAILABLE, "the server stops")
    assert [status.code for status in scene.ends] == [StatusCode.UNAVAILABLE]
    assert scene.sent()[-1] == 2


async def test_cancel(scene):
    scene.call.cancel()
    assert scene.sent() == [8]
    assert [status.code for status in scene.ends] == [StatusCode.CANCELLED]


async def test_messages_after_the_end_are_dropped(scene):
    scene.call.send(bytes(100_000))
    scene.call.finish()
    scene.client.ask(frame(0, 1, 1, message(b"late")))
    assert scene.messages == []
    assert scene.half_closes == 0


async def test_a_peer_that_stalls_is_given_up_at_the_bound(scene):
    most = sent = 0
    while not scene.ends:
        most = max(most, scene.call.unsent_bytes)
        scene.call.send(bytes(MIB))
        sent += 1
    assert [status.code for status in scene.ends] == [StatusCode.RESOURCE_EXHAUSTED]
    assert UNSENT_BYTES_MAX < most <= UNSENT_BYTES_MAX + MIB + PREFIX_BYTES
    assert sent == UNSENT_BYTES_MAX // MIB + 2, "the last one was not taken"
    assert scene.call.unsent_bytes == 0


async def test_many_small_messages_are_too_much_as_well(scene):
    sent = 0
    while not scene.ends and sent < UNSENT_BYTES_MAX // PREFIX_BYTES:
        scene.call.send(b"")
        sent += 1
    assert [status.code for status in scene.ends] == [StatusCode.RESOURCE_EXHAUSTED]
    in_the_window = WINDOW_INITIAL // PREFIX_BYTES
    assert sent == in_the_window + UNSENT_MESSAGES_MAX + 2


async def test_a_peer_that_stalls_with_many_calls_is_given_up_at_the_bound_of_all(scene):
    payload = bytes(UNSENT_BYTES_MAX)
    calls, most = [scene.call], 0
    while not scene.ends:
        most = max(most, scene.kept_bytes)
        calls.append(scene.another())
        calls[-1].send(payload)
    assert [status.code for status in scene.ends] == [StatusCode.RESOURCE_EXHAUSTED]
    assert UNSENT_CONNECTION_BYTES_MAX < most <= UNSENT_CONNECTION_BYTES_MAX + len(payload) + MIB
    assert {"grpc-status": "8"}.items() <= dict(scene.sent()[-2][0]).items()
    calls[0].send(b"")
    assert len(scene.ends) == 2, "a call that nothing waits in"
    calls[1].cancel()
    calls[2].cancel()
    assert scene.kept_bytes < UNSENT_CONNECTION_BYTES_MAX
    scene.another().send(payload)
    assert len(scene.ends) == 4, "there is room again"


async def test_many_small_messages_of_many_calls_are_too_much_as_well(scene, monkeypatch):
    monkeypatch.setattr("highwater.rpc.messages.UNSENT_CONNECTION_BYTES_MAX", 2 * MIB)
    scene.call.send(bytes(WINDOW_INITIAL))
    sent = 0
    while not scene.ends and sent < 10_000:
        call = scene.another()
        for _ in range(10):
            call.send(b"x")
            sent += 1
    assert scene.ends[0].code is StatusCode.RESOURCE_EXHAUSTED
    assert sent <= 2 * MIB // OUTGOING_BYTES + 10


async def test_the_longest_messages_of_two_calls_leave_room_for_others(scene):
    payload = bytes(MESSAGE_BYTES_MAX - MIB)
    first, second, third = scene.call, scene.another(), scene.another()
    first.send(payload)
    second.send(payload)
    third.send(bytes(MIB))
    third.send(b"")
    assert scene.ends == []


async def test_the_longest_message_may_wait_whole_and_be_the_last(scene):
    assert scene.call.can_send()
    scene.call.send(bytes(MESSAGE_BYTES_MAX))
    assert not scene.call.can_send()
    assert scene.call.unsent_bytes > UNSENT_BYTES_MAX
    scene.call.finish()
    scene.call.send(b"ignored")
    assert scene.ends == []
