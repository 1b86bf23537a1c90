"""Several listeners of one gateway, each with a block of its own."""

import pytest

from highwater.gateway.sockets.port_blocks import PortBlocks
from highwater.model.ids import NodeId
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import image_with


class Listener:
    def __init__(self):
        self.ports = {}
        self.accepting = False

    async def open_port(self, name, _instance, node, port, *, accept=True):
        assert accept == self.accepting or not accept
        self.ports[name, node] = port
        return port

    def has_port(self, name, _instance, node):
        return (name, node) in self.ports

    async def start_accepting(self):
        self.accepting = True


async def test_every_listener_gets_its_ports_before_any_accepts():
    listener = Listener()
    tasks = TaskOwner(lambda _name, error: (_ for _ in ()).throw(error))
    blocks = PortBlocks(
        listener,
        {DEFAULT_LISTENER: ("h", 9000), "internal": ("h", 19000)},
        tasks=tasks,
        node_id=NodeId(1),
        on_error=pytest.fail,
        on_instance_error=pytest.fail,
    )
    await blocks.reserve()
    own = {(DEFAULT_LISTENER, 1): 9001, ("internal", 1): 19001}
    assert listener.ports == own
    assert not listener.accepting
    await blocks.open(image_with(1), "g")
    assert listener.ports == own | {(DEFAULT_LISTENER, None): 9000, ("internal", None): 19000}
    assert (blocks.port(DEFAULT_LISTENER), blocks.port("internal")) == (9000, 19000)
    assert blocks.own_port == 9001
    blocks.close()
    assert await tasks.close(timeout_s=5)
