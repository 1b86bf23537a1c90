"""Several listeners of one gateway, each with a block of its own."""

from dataclasses import replace

import pytest

from highwater.gateway.sockets.port_blocks import PortBlocks
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, NodeId
from highwater.model.instances import InstanceListener, InstanceState
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import image_with
from tests.unit.gateway.clients.partition_node import until


class Listener:
    def __init__(self):
        self.instances = {}
        self.accepting = False

    async def open_port(self, name, instance, node, port, *, accept=True):
        assert accept == self.accepting or not accept
        self.of(instance)[name, node] = port
        return port

    def has_port(self, name, instance, node):
        return (name, node) in self.of(instance)

    def close_block(self, name, instance):
        for key in [key for key in self.of(instance) if key[0] == name]:
            del self.of(instance)[key]
        return []

    def send_away(self, *_port):
        return True

    def of(self, instance):
        """Ports by listener and node."""
        return self.instances.setdefault(instance, {})

    @property
    def ports(self):
        return self.of(DEFAULT_INSTANCE)

    async def start_port(self, name, _instance, node):
        assert not self.accepting
        assert (name, node) in self.ports

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


async def test_the_ports_of_instances_are_opened_once_the_gateway_accepts():
    listener = Listener()
    tasks = TaskOwner(lambda _name, error: (_ for _ in ()).throw(error))
    blocks = PortBlocks(
        listener,
        {DEFAULT_LISTENER: ("h", 9000)},
        tasks=tasks,
        node_id=NodeId(1),
        instance_shift=5,
        on_error=pytest.fail,
        on_instance_error=pytest.fail,
    )
    tenant = InstanceId("a")
    state = InstanceState(instance=tenant, listeners=(InstanceListener(port=20000),))
    shown = replace(image_with(1), instances={tenant: state})
    await blocks.reserve()
    blocks.follow(shown)
    await blocks.open(shown, "g")
    await until(lambda: listener.of(tenant) == {("default", None): 20005, ("default", 1): 20006})
    blocks.follow(image_with(1))
    assert listener.of(tenant) == {}
    assert listener.ports == {("default", None): 9000, ("default", 1): 9001}
    blocks.close()
    assert await tasks.close(timeout_s=5)
