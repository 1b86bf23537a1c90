"""A node and a link to it."""

import asyncio

import pytest

from highwater.gateway.clients.node_link import GrpcNodeLink
from highwater.gateway.core.budget import MemoryBudget
from highwater.hop.channels import hop_channels
from highwater.hop.settings import HopSettings, HopTransport
from tests.unit.gateway.clients.partition_node import PartitionNode


@pytest.fixture(params=HopTransport)
def transport(request):
    """Of both ends; test_transport.py in tests/unit/hop mixes them."""
    return request.param


@pytest.fixture
async def node(tmp_path, transport):
    made = PartitionNode(tmp_path, transport)
    made.add(0)
    made.add(1)
    await made.start()
    yield made
    await made.kill()
    assert made.stream_failures == []


@pytest.fixture
def link_failures():
    """Bugs that links have reported; a test that expects some clears it."""
    return []


@pytest.fixture
async def open_link(node, transport, link_failures):
    links = []

    def failed(name, error):
        link_failures.append((name, error))

    channels = hop_channels(HopSettings(transport=transport), failed)

    def open_one(state=None, append_owner=None):
        link = GrpcNodeLink(
            state or node.state(),
            clock=node.clock,
            schedule=asyncio.get_running_loop().call_soon,
            on_failure=failed,
            channels=channels,
            transport=transport,
            budget=MemoryBudget(1 << 20),
            append_owner=append_owner,
        )
        link.start()
        links.append(link)
        return link

    yield open_one
    for link in links:
        await link.close()
    assert link_failures == []


@pytest.fixture
async def link(open_link):
    return open_link()
