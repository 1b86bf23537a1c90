"""Two processes may bind a port; the second one that listens must learn that it cannot."""

import asyncio
import socket

import pytest
import uvloop

from highwater.model.errors import PortInUseError
from highwater.runtime.listening import start_listening


async def _bound() -> asyncio.Server:
    loop = asyncio.get_running_loop()
    return await loop.create_server(
        asyncio.Protocol, "127.0.0.1", 0, reuse_address=True, start_serving=False
    )


async def _another_listens_first() -> None:
    server = await _bound()
    with socket.socket() as rival:
        rival.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        rival.bind(server.sockets[0].getsockname())
        rival.listen()
        with pytest.raises(PortInUseError, match="here:1"):
            await start_listening(server, "here:1")
    assert not server.is_serving()


async def _nobody_else_listens() -> None:
    server = await _bound()
    port = server.sockets[0].getsockname()[1]
    await start_listening(server, "here:1")
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.transport.abort()
    server.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("scenario", [_another_listens_first, _nobody_else_listens])
def test_a_port_that_another_process_listens_on_is_in_use(run, scenario):
    run(scenario())


def test_a_start_that_is_cancelled_leaves_no_port_open():
    """asyncio's own loop waits a turn after it listens; uvloop does not."""

    async def cancelled():
        server = await _bound()
        address = server.sockets[0].getsockname()
        starting = asyncio.create_task(start_listening(server, "here:1"))
        await asyncio.sleep(0)
        assert server.is_serving()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)

    asyncio.run(cancelled())
