"""What a host's kernel shows of its processes."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from highwater.controller.members import peers
from tests.support.etcd import free_ports


class Listener:
    """A server that sends a greeting and then nothing."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self.accepted = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def _serve(self, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.append(writer)
        writer.write(b"hello")

    def drop(self) -> None:
        for writer in self._writers:
            writer.close()

    def end(self) -> None:
        if self._server is not None:
            self._server.close()
        self.drop()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    made = Listener()
    yield made
    made.end()


async def test_a_listening_process_is_present(listener: Listener) -> None:
    assert await peers.is_refused(listener.address)
    await listener.open()
    assert not await peers.is_refused(listener.address)


@pytest.mark.parametrize("address", ["in-process", "", "127.0.0.1:", "no-such-host.invalid:1"])
async def test_what_is_no_address_refuses_nothing(address: str) -> None:
    assert not await peers.is_refused(address)


async def test_a_process_that_stopped_listening_is_gone(listener: Listener) -> None:
    await listener.open()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        gone = group.create_task(peers.until_gone(listener.address))
        while not listener.accepted:
            await asyncio.sleep(0.01)
        listener.drop()
        while listener.accepted < 2:
            await asyncio.sleep(0.01)
        assert not gone.done(), "a lost connection alone says nothing"
        listener.end()


async def test_an_address_that_never_worked(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "RETRY_S", 0.01)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await peers.until_gone(listener.address)
