"""Which ports a gateway opens and closes for instances, as images come."""

import asyncio
from dataclasses import replace

import pytest

from highwater.gateway.sockets import port_block
from highwater.gateway.sockets.instance_ports import BlockKey, InstancePorts
from highwater.model.errors import PortInUseError
from highwater.model.ids import DEFAULT_INSTANCE, NO_NODE, InstanceId, NodeId
from highwater.model.instances import InstanceListener, InstanceState
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import image_with
from tests.unit.gateway.clients.partition_node import until

A = InstanceId("a")
P = 20000
INSIDE = "internal"


class Listener:
    """Takes ports of a host, of which some may be taken."""

    def __init__(self):
        self.ports = {}
        self.taken = set()
        self.connections = {}
        self.drained = []

    async def open_port(self, name, instance, node, port, *, accept=True):
        await asyncio.sleep(0)
        if port in self.taken or port in self.ports.values():
            raise PortInUseError(f"h:{port}")
        assert accept
        self.ports[name, instance, node] = port
        return port

    def has_port(self, *key):
        return key in self.ports

    def close_port(self, *key):
        del self.ports[key]

    def close_block(self, *block):
        for key in [key for key in self.ports if key[:2] == block]:
            del self.ports[key]
        return self.connections.pop(block, [])

    async def drain(self, connections, drain_s, _reason):
        await asyncio.sleep(0)
        self.drained.append((connections, drain_s))

    def send_away(self, *_port):
        return True

    def open(self, instance=A, name=DEFAULT_LISTENER):
        """Port by node."""
        return {key[2]: port for key, port in self.ports.items() if key[:2] == (name, instance)}


def image(*instances, nodes=2):
    shown = image_with(nodes)
    return replace(shown, instances={each.instance: each for each in instances})


def tenant(*ports, name=A, listener=DEFAULT_LISTENER, **more):
    blocks = tuple(InstanceListener(port=port, listener=listener) for port in ports)
    return InstanceState(instance=name, listeners=blocks, **more)


class World:
    def __init__(self):
        self.failures = []
        self.tasks = TaskOwner(lambda *failure: self.failures.append(failure))
        self.made = []

    def ports(self, **settings):
        self.errors = []
        self.listener = Listener()
        made = InstancePorts(
            self.listener,
            {DEFAULT_LISTENER: "h", INSIDE: "i"},
            tasks=self.tasks,
            drain_s=3,
            on_error=lambda *told: self.errors.append(told),
            **settings,
        )
        self.made.append(made)
        return made

    async def opened(self, shown, **settings):
        made = self.ports(**settings)
        made.follow(shown, {})
        return made


@pytest.fixture
async def w(monkeypatch):
    monkeypatch.setattr(port_block, "RETRY_S", 0.01)
    made = World()
    yield made
    for each in made.made:
        each.close()
    assert await made.tasks.close(timeout_s=5)
    assert made.failures == []


async def test_an_instance_has_a_port_for_each_node_and_for_bootstrap(w):
    await w.opened(image(tenant(P)))
    await until(lambda: w.listener.open() == {None: P, 1: P + 1, 2: P + 2})


async def test_the_ports_of_a_gateway_are_shifted(w):
    await w.opened(image(tenant(P)), shift=100)
    await until(lambda: w.listener.open() == {None: P + 100, 1: P + 101, 2: P + 102})


async def test_one_port_serves_all_nodes_of_a_broker_with_one_port(w):
    await w.opened(image(tenant(P)), single_port=True, node_id=NodeId(1))
    await until(lambda: w.listener.open() == {None: P})


async def test_a_node_and_its_gateway_have_the_node_s_port_too(w):
    await w.opened(image(tenant(P)), node_id=NodeId(2))
    await until(lambda: w.listener.open() == {None: P, 1: P + 1, 2: P + 2})


async def test_another_process_may_have_the_bootstrap_port_but_not_the_node_s(w):
    made = w.ports(node_id=NodeId(2))
    w.listener.taken |= {P, P + 1}
    made.follow(image(tenant(P)), {})
    await until(lambda: w.listener.open() == {2: P + 2})
    assert w.errors == []
    assert made.missing == {A: 0}
    w.listener.taken.clear()
    await until(lambda: w.listener.open() == {None: P, 1: P + 1, 2: P + 2})


async def test_a_node_s_port_that_nobody_gives_back_is_told_after_a_while(w, monkeypatch):
    monkeypatch.setattr(port_block, "OWN_PORT_WAIT_S", 0.2)
    made = w.ports(node_id=NodeId(2))
    w.listener.taken.add(P + 2)
    made.follow(image(tenant(P)), {})
    await until(lambda: w.listener.open() == {None: P, 1: P + 1})
    await asyncio.sleep(0.05)
    assert w.errors == [], "as after a restart, when another process still serves it"
    await until(lambda: made.missing == {A: 1})
    assert [str(error) for _, error in w.errors] == [str(PortInUseError("h:20002"))]
    w.listener.taken.clear()
    await until(lambda: made.missing == {A: 0})


async def test_a_port_that_is_taken_is_told_once_and_tried_again(w):
    made = w.ports()
    w.listener.taken.add(P + 2)
    made.follow(image(tenant(P)), {})
    await until(lambda: made.missing == {A: 1})
    assert w.listener.open() == {None: P, 1: P + 1}
    await asyncio.sleep(0.05)
    key = BlockKey(DEFAULT_LISTENER, A)
    assert [(block, str(error)) for block, error in w.errors] == [
        (key, str(PortInUseError("h:20002")))
    ]
    w.listener.taken.clear()
    await until(lambda: made.missing == {A: 0})
    assert w.listener.open()[2] == P + 2


async def test_only_the_listeners_of_the_gateway_count(w):
    blocks = (
        InstanceListener(port=P),
        InstanceListener(port=P + 100, listener=INSIDE),
        InstanceListener(port=P + 200, listener="elsewhere"),
    )
    await w.opened(image(InstanceState(instance=A, listeners=blocks)))
    await until(lambda: len(w.listener.ports) == 6)
    assert w.listener.open(name=INSIDE) == {None: P + 100, 1: P + 101, 2: P + 102}


async def test_neither_a_deleted_instance_nor_the_default_one_has_blocks(w):
    shown = image(tenant(P, purge_at_ms=1), tenant(P + 100, name=DEFAULT_INSTANCE))
    made = await w.opened(shown)
    await asyncio.sleep(0.05)
    assert w.listener.ports == {}
    assert made.missing == {}


@pytest.mark.parametrize(
    "after",
    [(), (tenant(),), (tenant(P, purge_at_ms=1),), (tenant(P, listener="elsewhere"),)],
    ids=["gone", "no block", "deleted", "at another listener"],
)
async def test_the_ports_close_at_once_and_connections_after_their_requests(w, after):
    made = await w.opened(image(tenant(P)))
    await until(lambda: len(w.listener.ports) == 3)
    w.listener.connections[DEFAULT_LISTENER, A] = ["one", "two"]
    made.follow(image(*after), {})
    assert w.listener.ports == {}
    await until(lambda: w.listener.drained == [(["one", "two"], 3)])
    await asyncio.sleep(0.05)
    assert w.listener.ports == {}, "nothing opens them again"


async def test_a_block_moves(w):
    made = await w.opened(image(tenant(P)))
    await until(lambda: len(w.listener.ports) == 3)
    made.follow(image(tenant(P + 1)), {})
    await until(lambda: w.listener.open() == {None: P + 1, 1: P + 2, 2: P + 3})


async def test_other_changes_of_an_instance_move_nothing(w):
    made = await w.opened(image(tenant(P)))
    await until(lambda: len(w.listener.ports) == 3)
    w.listener.close_block = w.listener.open_port = None
    made.follow(image(tenant(P, connections_max=3)), {})
    assert w.listener.open() == {None: P, 1: P + 1, 2: P + 2}


async def test_new_nodes_have_ports(w):
    made = await w.opened(image(tenant(P)))
    made.follow(image(tenant(P), nodes=4), {})
    await until(lambda: w.listener.open().get(4) == P + 4)


async def test_after_the_end_nothing_opens(w):
    made = w.ports(node_id=NO_NODE)
    w.listener.taken |= {P, P + 1, P + 2}
    made.follow(image(tenant(P)), {})
    await until(lambda: made.missing == {A: 3})
    made.close()
    w.listener.taken.clear()
    await asyncio.sleep(0.05)
    assert w.listener.ports == {}


async def test_many_blocks_try_less_often(w, monkeypatch):
    monkeypatch.setattr(port_block, "RETRY_S", 0.2)
    few = await w.opened(image(*(tenant(P + 10 * n, name=InstanceId(f"t{n}")) for n in range(40))))
    assert few.retry_s == 0.2
    many = await w.opened(
        image(*(tenant(P + 10 * n, name=InstanceId(f"t{n}")) for n in range(400)))
    )
    assert many.retry_s == 2.0
