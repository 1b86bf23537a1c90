import asyncio

import pytest

from highwater.hop.transport import MESSAGE_BYTES_MAX
from highwater.http2.errors import ErrorCode
from highwater.http2.flow_window import WINDOW_INITIAL
from highwater.http2.frames import RST_STREAM, UINT32, frame
from highwater.rpc.client_call import EARLY_MESSAGES_MAX, ClientCall
from highwater.rpc.message_memory import AssemblyBudget
from highwater.rpc.messages import (
    PREFIX,
    PREFIX_BYTES,
    UNSENT_BYTES_MAX,
    UNSENT_CONNECTION_BYTES_MAX,
    UNSENT_MESSAGES_MAX,
)
from highwater.rpc.status import StatusCode
from tests.support.http2_wire import RESPONSE, RawServer, frames_of

END = 0x1 | 0x4
MIB = 1 << 20


class Host:
    message_bytes_max = 1000

    def __init__(self):
        self.failures = []
        self.ended = 0

    def on_failure(self, name, error):
        self.failures.append((name, type(error)))

    def request_fields(self, path):
        return [(":method", "POST"), (":scheme", "http"), (":path", path)]

    def call_ended(self, _call):
        self.ended += 1


class Scene:
    """One call against a server that the test plays."""

    def __init__(self, server=None, **options):
        self.host, self.server = Host(), server or RawServer()
        self.messages, self.ends = [], []
        self.opened = 0
        self.call = ClientCall(
            self.host,
            "/a.B/C",
            loop=asyncio.get_running_loop(),
            on_message=lambda message: self.messages.append(bytes(message)),
            on_end=self.ends.append,
            on_open=self._open,
            **options,
        )

    def _open(self):
        self.opened += 1

    def begin(self):
        self.call.begin(self.server.end.connection, AssemblyBudget(10_000))
        return list(frames_of(self.server.end.sent()))

    def respond(self, fields=RESPONSE, flags=0x4):
        return self.server.ask(self.server.headers(1, fields, flags))

    def data(self, payload):
        return self.server.ask(frame(0, 0, 1, payload))


@pytest.fixture
async def scene():
    return Scene()


def message(payload):
    return PREFIX.pack(0, len(payload)) + payload


async def test_messages_from_before_the_connection_go_first(scene):
    scene.call.send(b"a")
    scene.call.send([b"b", b"c"])
    scene.call.half_close()
    scene.call.send(b"late")
    frames = scene.begin()
    assert [(kind, flags, payload) for kind, flags, _, payload in frames[1:]] == [
        (0, 0, message(b"a")),
        (0, 1, message(b"bc")),
    ]
    assert scene.opened == 1


async def test_too_many_messages_before_the_connection(scene):
    for _ in range(EARLY_MESSAGES_MAX + 1):
        scene.call.send(b"")
    assert scene.ends[0].code is StatusCode.RESOURCE_EXHAUSTED


async def test_a_whole_answer(scene):
    scene.begin()
    scene.respond([*RESPONSE, ("first", "yes")])
    scene.data(message(b"a") + message(b"b"))
    scene.respond([("grpc-status", "5"), ("grpc-message", "no%20t%C3%B6pic"), ("k", "v")], END)
    assert scene.messages == [b"a", b"b"]
    [status] = scene.ends
    assert (status.code, status.details) == (StatusCode.NOT_FOUND, "no töpic")
    assert ("k", "v") in status.metadata
    assert ("first", "yes") in scene.call.initial_metadata
    assert scene.host.ended == 1


async def test_trailers_only(scene):
    scene.begin()
    scene.respond([*RESPONSE, ("grpc-status", "12"), ("grpc-message", "no")], END)
    [status] = scene.ends
    assert (status.code, status.details) == (StatusCode.UNIMPLEMENTED, "no")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ([(":status", "404"), ("content-type", "text/html")], StatusCode.UNIMPLEMENTED),
        ([(":status", "200"), ("content-type", "text/html")], StatusCode.UNKNOWN),
        ([(":status", "503")], StatusCode.UNAVAILABLE),
        ([*RESPONSE, ("x-bin", "!")], StatusCode.INTERNAL),
    ],
)
async def test_what_is_no_grpc(scene, fields, code):
    scene.begin()
    assert [kind for kind, *_ in scene.respond(fields)] == [RST_STREAM]
    assert [status.code for status in scene.ends] == [code]


async def test_an_end_without_a_status(scene):
    scene.begin()
    scene.respond()
    scene.respond([("k", "v")], END)
    assert scene.ends[0].code is StatusCode.UNKNOWN


async def test_an_end_without_trailers(scene):
    scene.begin()
    scene.respond()
    scene.server.ask(frame(0, 1, 1, message(b"a")))
    assert scene.messages == [b"a"]
    assert scene.ends[0].code is StatusCode.INTERNAL


async def test_the_status_waits_for_messages_of_a_paused_reader(scene):
    scene.call.pause_reading()
    scene.begin()
    scene.respond()
    scene.data(message(b"a"))
    scene.respond([("grpc-status", "0")], END)
    assert scene.ends == []
    scene.call.resume_reading()
    assert scene.messages == [b"a"]
    assert [status.code for status in scene.ends] == [StatusCode.OK]
    assert scene.server.end.connection.held_bytes == 0


async def test_a_message_that_is_too_large(scene):
    scene.begin()
    scene.respond()
    answers = scene.data(PREFIX.pack(0, 1001))
    assert [UINT32.unpack(payload)[0] for kind, _, _, payload in answers if kind == RST_STREAM] == [
        8
    ]
    assert [status.code for status in scene.ends] == [StatusCode.RESOURCE_EXHAUSTED]


async def test_a_refused_stream_may_be_repeated(scene):
    scene.begin()
    scene.server.ask(frame(RST_STREAM, 0, 1, UINT32.pack(ErrorCode.REFUSED_STREAM)))
    assert scene.ends[0].code is StatusCode.UNAVAILABLE
    assert scene.call.unprocessed


async def test_another_reset_may_not(scene):
    scene.begin()
    scene.server.ask(frame(RST_STREAM, 0, 1, UINT32.pack(ErrorCode.CANCEL)))
    assert scene.ends[0].code is StatusCode.CANCELLED
    assert not scene.call.unprocessed


async def test_a_deadline_travels_and_ends_the_call():
    scene = Scene(timeout_s=0.05)
    scene.begin()
    await asyncio.sleep(0.1)
    assert scene.ends[0].code is StatusCode.DEADLINE_EXCEEDED
    assert [kind for kind, *_ in frames_of(scene.server.end.sent())] == [RST_STREAM]
    scene.call.cancel()
    assert len(scene.ends) == 1


async def test_cancel_before_the_connection(scene):
    scene.call.cancel()
    assert scene.ends[0].code is StatusCode.CANCELLED
    scene.call.send(b"late")
    scene.call.half_close()
    assert scene.host.ended == 1


async def test_a_peer_that_stalls_is_given_up_at_the_bound(scene):
    scene.begin()
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
    scene.begin()
    sent = 0
    while not scene.ends and sent < UNSENT_BYTES_MAX // PREFIX_BYTES:
        scene.call.send(b"")
        sent += 1
    assert [status.code for status in scene.ends] == [StatusCode.RESOURCE_EXHAUSTED]
    in_the_window = WINDOW_INITIAL // PREFIX_BYTES
    assert sent == in_the_window + UNSENT_MESSAGES_MAX + 2


async def test_a_server_that_stalls_is_given_up_at_the_bound_of_all_calls(scene):
    payload, output = bytes(UNSENT_BYTES_MAX // 2), scene.server.end.connection.output
    scenes, most = [], 0
    while not any(one.ends for one in scenes):
        most = max(most, output.kept_bytes)
        scenes.append(Scene(scene.server))
        scenes[-1].begin()
        scenes[-1].call.send(payload)
    assert [status.code for status in scenes[-1].ends] == [StatusCode.RESOURCE_EXHAUSTED]
    assert UNSENT_CONNECTION_BYTES_MAX < most <= UNSENT_CONNECTION_BYTES_MAX + len(payload) + MIB
    scenes[0].call.cancel()
    scenes[1].call.cancel()
    scenes[2].call.send(b"")
    assert scenes[2].ends == []


async def test_the_longest_message_may_wait_whole_and_be_the_last(scene):
    scene.begin()
    assert scene.call.can_send()
    scene.call.send(bytes(MESSAGE_BYTES_MAX))
    assert not scene.call.can_send()
    assert scene.call.unsent_bytes > UNSENT_BYTES_MAX
    scene.call.half_close()
    scene.call.send(b"ignored")
    assert scene.ends == []
