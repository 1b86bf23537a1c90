"""Messages that wait to be written over grpc.aio, and names of statuses."""

import asyncio

import grpc
import pytest

from highwater.rpc.grpcio_messages import Outgoing, code_of, grpcio_code_of, metadata_of
from highwater.rpc.status import StatusCode


@pytest.mark.parametrize("code", StatusCode)
def test_codes_have_the_same_numbers_and_names(code):
    assert grpcio_code_of(code).value[0] == code
    assert code_of(grpcio_code_of(code)) is code
    assert code_of(grpc.StatusCode.ABORTED) is StatusCode.ABORTED


def test_metadata_of_grpc_itself_are_left_out():
    assert metadata_of([("grpc-status", "0"), ("a", "b"), ("c-bin", b"d")]) == [
        ("a", "b"),
        ("c-bin", b"d"),
    ]
    assert metadata_of(None) == []


class Wire:
    """Takes one message after the other, when the test lets it."""

    def __init__(self):
        self.written = []
        self.passed = asyncio.Event()
        self.passed.set()

    async def write(self, message):
        await self.passed.wait()
        self.written.append(message)


async def test_messages_are_joined_and_written_in_order():
    outgoing, wire = Outgoing(lambda: None), Wire()
    outgoing.send(b"a")
    outgoing.send([b"b", memoryview(b"c"), bytearray(b"d")])
    outgoing.send(memoryview(b"e"))
    assert outgoing.nbytes == 5
    outgoing.end()
    outgoing.send(b"ignored")
    async with asyncio.timeout(5):
        await outgoing.run(wire.write)
    assert wire.written == [b"a", b"bcd", b"e"]
    assert all(type(message) is bytes for message in wire.written)
    assert outgoing.nbytes == 0


async def test_the_owner_gathers_while_a_message_is_written():
    gathered, wire = [b"b", b"c"], Wire()

    def writable():
        if gathered:
            outgoing.send(b"".join(gathered))
            gathered.clear()

    outgoing = Outgoing(writable)
    running = asyncio.create_task(outgoing.run(wire.write))
    await asyncio.sleep(0)
    assert outgoing.can_send()
    wire.passed.clear()
    outgoing.send(b"a")
    await asyncio.sleep(0)
    assert not outgoing.can_send()
    gathered.append(b"d")
    wire.passed.set()
    async with asyncio.timeout(5):
        while wire.written != [b"a", b"bcd"]:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert outgoing.can_send(), "nobody is told who has not asked"
    running.cancel()
