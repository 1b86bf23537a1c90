"""The demo service on our server, and a channel of ours to it."""

import pytest

from highwater.rpc.channel import Channel
from tests.support.rpc_demo import Demo, start_demo


@pytest.fixture
def demo():
    return Demo()


@pytest.fixture
async def server(demo):
    made = await start_demo(demo)
    yield made
    await made.stop(drain_s=0)


@pytest.fixture
async def channel(server):
    made = Channel(server.address)
    yield made
    await made.close()
