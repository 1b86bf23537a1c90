"""What users of streams depend on, kept by both transports."""

import asyncio

import pytest

from highwater.gateway.clients.append_stream import OUTSTANDING_MAX
from highwater.hop.settings import HopTransport
from highwater.hop.transport import MESSAGE_BYTES_MAX, make_server, open_channel
from highwater.rpc.errors import RpcError
from highwater.rpc.ports import ServerCallbacks
from highwater.rpc.status import Status, StatusCode

PATH = "/test.Service/Stream"
UNARY = "/test.Service/Unary"
LARGE = 40 << 20
"""More than any window, and what is buffered beside it."""


async def until(condition, timeout_s=10):
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.002)


class Peers:
    """A server whose calls the test keeps, and a channel to it."""

    def __init__(self, transport):
        self.failures = []
        self.server = make_server("127.0.0.1", 0, transport, self.failed)
        self.server.methods.add_stream(PATH, self.serve)
        self.server.methods.add_unary(UNARY, self.unary, deserialize=bytes, serialize=bytes)
        self.transport = transport
        self.calls, self.received, self.server_ends, self.writable = [], [], [], []
        self.half_closes = 0
        self.answer = None
        self.on_message = self.received.append

    def failed(self, name, error):
        self.failures.append((name, type(error)))

    def serve(self, call):
        self.calls.append(call)
        return ServerCallbacks(
            on_message=lambda message: self.on_message(bytes(message)),
            on_half_close=self.half_closed,
            on_end=self.server_ends.append,
            on_writable=lambda: self.writable.append(call.unsent_bytes),
        )

    def half_closed(self):
        self.half_closes += 1

    async def unary(self, request, _call):
        return await self.answer(request)

    async def start(self):
        await self.server.start()
        self.channel = open_channel(self.server.address, self.transport, self.failed)


class Client:
    """A call, and what it heard."""

    def __init__(self, channel, path=PATH, **options):
        self.messages, self.ends, self.opens, self.writable = [], [], 0, 0
        self.call = channel.stream(
            path,
            on_message=lambda message: self.messages.append(bytes(message)),
            on_end=self.ends.append,
            on_open=self.opened,
            on_writable=self.can_write,
            **options,
        )

    def opened(self):
        assert self.ends == []
        self.opens += 1

    def can_write(self):
        self.writable += 1


@pytest.fixture(params=HopTransport)
async def peers(request):
    made = Peers(request.param)
    await made.start()
    yield made
    await made.channel.close()
    await made.server.stop(drain_s=0)


@pytest.fixture
async def client(peers):
    made = Client(peers.channel)
    assert made.opens == 0, "callbacks come later"
    made.call.send(b"first")
    await until(lambda: peers.received)
    assert peers.received.pop() == b"first"
    assert made.opens == 1
    return made


async def test_messages_go_both_ways_in_order(peers, client):
    sent = [b"%d" % n * n for n in range(200)]
    for message in sent:
        client.call.send(message)
        peers.calls[0].send([memoryview(message), b"!"])
    await until(lambda: len(client.messages) == len(peers.received) == 200)
    assert peers.received == sent
    assert client.messages == [message + b"!" for message in sent]


async def test_a_finished_call_ends_with_its_status_behind_its_messages(peers, client):
    call = peers.calls[0]
    assert call.path == PATH
    for _ in range(3):
        call.send(b"x")
    call.finish(StatusCode.FAILED_PRECONDITION, "grün", [("reason", "why")])
    call.send(b"ignored")
    await until(lambda: client.ends and peers.server_ends)
    assert client.messages == [b"x"] * 3
    ((code, details, metadata),) = client.ends
    assert (code, details) == (StatusCode.FAILED_PRECONDITION, "grün")
    assert ("reason", "why") in list(metadata)
    assert [status.code for status in peers.server_ends] == [StatusCode.FAILED_PRECONDITION]


async def test_both_sides_close_in_order(peers, client):
    client.call.send(b"last")
    client.call.half_close()
    await until(lambda: peers.half_closes == 1)
    assert peers.received == [b"last"]
    peers.calls[0].send(b"answer")
    peers.calls[0].finish()
    await until(lambda: client.ends)
    assert client.messages == [b"answer"]
    assert client.ends == [Status(StatusCode.OK, "", client.ends[0].metadata)]


async def test_a_cancelled_call_ends_at_once_and_at_the_other_end(peers, client):
    client.call.cancel()
    client.call.cancel()
    assert [status.code for status in client.ends] == [StatusCode.CANCELLED]
    client.call.send(b"ignored")
    await until(lambda: peers.server_ends)
    assert [status.code for status in peers.server_ends] == [StatusCode.CANCELLED]
    assert peers.received == []


async def test_a_call_that_the_server_cancels(peers, client):
    peers.calls[0].cancel()
    assert [status.code for status in peers.server_ends] == [StatusCode.CANCELLED]
    await until(lambda: client.ends)
    assert [status.code for status in client.ends] == [StatusCode.CANCELLED]
    await asyncio.sleep(0.02)
    assert len(peers.server_ends) == 1


async def test_a_paused_reader_stops_the_server(peers, client):
    client.call.pause_reading()
    call, piece, sent = peers.calls[0], bytes(1 << 20), 0
    while sent < LARGE:
        await asyncio.sleep(0.002)
        if not call.can_send():
            await asyncio.sleep(0.1)
            if not call.can_send():
                break
        else:
            call.send(piece)
            sent += len(piece)
    assert sent < LARGE, "the window is full"
    assert len(client.messages) <= 1
    assert peers.writable == [] or sent > 0
    before = len(peers.writable)
    client.call.resume_reading()
    await until(lambda: sum(map(len, client.messages)) == sent)
    await until(lambda: len(peers.writable) > before)
    assert call.can_send()


async def test_the_most_that_one_call_may_have_under_way_arrives(peers, client):
    """As appends have it: messages of 1 MiB and a batch of the largest size."""
    nbytes = [1 << 20] * (OUTSTANDING_MAX[HopTransport.LOOP] - 1) + [MESSAGE_BYTES_MAX]
    got = []
    peers.on_message = lambda message: got.append(len(message))
    peers.calls[0].pause_reading()
    for size in nbytes:
        await until(client.call.can_send)
        client.call.send(bytes(size))
    await until(lambda: not client.call.can_send())
    assert got == nbytes[: len(got)]
    assert len(got) <= 1
    peers.calls[0].resume_reading()
    await until(lambda: len(got) == len(nbytes))
    assert got == nbytes
    assert client.ends == []


async def test_a_paused_server_stops_the_client(peers, client):
    peers.calls[0].pause_reading()
    piece, sent = bytes(1 << 20), 0
    while sent < LARGE:
        await asyncio.sleep(0.002)
        if not client.call.can_send():
            await asyncio.sleep(0.1)
            if not client.call.can_send():
                break
        else:
            client.call.send(piece)
            sent += len(piece)
    assert sent < LARGE
    assert len(peers.received) <= 1
    before = client.writable
    peers.calls[0].resume_reading()
    await until(lambda: sum(map(len, peers.received)) == sent)
    await until(lambda: client.writable > before)


async def test_a_bug_of_the_server_ends_its_call_with_an_error(peers, client):
    def buggy(_message):
        raise KeyError("a bug")

    peers.on_message = buggy
    client.call.send(b"x")
    await until(lambda: client.ends)
    assert client.ends[0].code is StatusCode.UNKNOWN
    assert "KeyError" in client.ends[0].details
    assert peers.failures == [(PATH, KeyError)]
    await until(lambda: len(peers.server_ends) == 1)


async def test_a_bug_of_the_client_ends_its_call(peers):
    ends = []

    def buggy(_message):
        raise KeyError("a bug")

    call = peers.channel.stream(PATH, on_message=buggy, on_end=ends.append)
    call.send(b"x")
    await until(lambda: peers.calls)
    peers.calls[0].send(b"y")
    await until(lambda: ends)
    assert ends[0].code is StatusCode.UNKNOWN
    assert peers.failures == [(PATH, KeyError)]
    await until(lambda: peers.server_ends)


async def test_a_method_that_nobody_serves(peers):
    client = Client(peers.channel, "/test.Service/Other")
    await until(lambda: client.ends)
    assert client.ends[0].code is StatusCode.UNIMPLEMENTED


async def test_a_deadline(peers):
    client = Client(peers.channel, timeout_s=0.1)
    await until(lambda: client.ends)
    assert client.ends[0].code is StatusCode.DEADLINE_EXCEEDED
    await until(lambda: peers.server_ends)


async def test_metadata_reach_the_server(peers):
    Client(peers.channel, metadata=[("who", "me")])
    await until(lambda: peers.calls)
    assert ("who", "me") in list(peers.calls[0].metadata)


async def test_nobody_listens(peers):
    await peers.server.stop(drain_s=0)
    client = Client(peers.channel)
    await until(lambda: client.ends)
    assert (client.opens, client.ends[0].code) == (0, StatusCode.UNAVAILABLE)
    with pytest.raises(RpcError) as caught:
        await ask(peers, b"x")
    assert caught.value.code is StatusCode.UNAVAILABLE


async def test_a_server_that_stops_ends_running_calls(peers, client):
    async with asyncio.timeout(5):
        await peers.server.stop(drain_s=0.05)
    await until(lambda: client.ends and peers.server_ends)
    assert client.ends[0].code is not StatusCode.OK


async def test_a_channel_that_is_closed_ends_its_calls(peers, client):
    await peers.channel.close()
    assert [status.code for status in client.ends] == [StatusCode.CANCELLED]
    await until(lambda: peers.server_ends)


# ---- calls with one request and one response ----


async def ask(peers, request, timeout_s=5.0):
    async with asyncio.timeout(10):
        return await peers.channel.unary(
            UNARY, request, serialize=bytes, deserialize=bytes, timeout_s=timeout_s
        )


async def test_a_unary_call(peers):
    async def upper(request):
        return request.upper()

    peers.answer = upper
    assert await ask(peers, b"abc") == b"ABC"
    assert await ask(peers, bytes(3 << 20)) == bytes(3 << 20)


async def test_a_unary_call_that_is_refused(peers):
    async def refuse(_request):
        raise RpcError(StatusCode.NOT_FOUND, "no such thing")

    peers.answer = refuse
    with pytest.raises(RpcError) as caught:
        await ask(peers, b"abc")
    assert (caught.value.code, caught.value.details) == (StatusCode.NOT_FOUND, "no such thing")
    assert peers.failures == []


async def test_a_unary_call_that_meets_a_bug(peers):
    async def fail(_request):
        raise KeyError("a bug")

    peers.answer = fail
    with pytest.raises(RpcError) as caught:
        await ask(peers, b"abc")
    assert caught.value.code is StatusCode.UNKNOWN
    assert peers.failures == [(UNARY, KeyError)]


async def test_unary_calls_that_are_given_up_are_given_up_by_the_server(peers):
    begun, given_up = [], []

    async def wait(_request):
        begun.append(1)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            given_up.append(1)
            raise

    peers.answer = wait
    with pytest.raises(RpcError) as caught:
        await ask(peers, b"abc", timeout_s=0.1)
    assert caught.value.code is StatusCode.DEADLINE_EXCEEDED
    await until(lambda: given_up)
    asking = asyncio.create_task(ask(peers, b"abc"))
    await until(lambda: len(begun) == 2)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(lambda: len(given_up) == 2)
