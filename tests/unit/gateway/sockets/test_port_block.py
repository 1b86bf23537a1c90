"""Which ports a gateway opens, and how the processes of one host share a block."""

import asyncio
from dataclasses import replace

import pytest

from highwater.controller.core.gateways import assign_gateways
from highwater.gateway.sockets import port_block as module
from highwater.gateway.sockets.port_blocks import PortBlocks
from highwater.model.cluster import GatewayState
from highwater.model.errors import ConfigError, PortInUseError, UsageError
from highwater.model.ids import NO_NODE, GatewayId, NodeId
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.runtime.tasks import TaskOwner
from tests.support.controller_images import image_with
from tests.unit.gateway.clients.partition_node import until

P = 9000


class Listener:
    """Takes ports of a host, which all listeners of a test share."""

    def __init__(self, host):
        self.host = host
        self.ports = {}
        self.accepting = False
        self.accepting_on = []
        self.listened_elsewhere = 0
        """How often another process listens on a port that is bound here."""
        self.busy = set()
        """Nodes whose clients have something under way."""
        self.sent_away = []
        self.refused = 0

    async def open_port(self, _name, _instance, node, port, *, accept=True):
        await asyncio.sleep(0)
        if port in self.host and self.host[port] == "another listener":
            raise ConfigError(f"port {port} overlaps")
        if port in self.host:
            self.refused += 1
            raise PortInUseError(f"h:{port}")
        self.host[port] = self
        self.ports[node] = port
        return port or 4711

    def has_port(self, _name, _instance, node):
        return node in self.ports

    def close_port(self, _name, _instance, node):
        del self.host[self.ports.pop(node)]

    def send_away(self, _name, _instance, node):
        self.sent_away.append(node)
        return node not in self.busy

    async def start_port(self, _name, _instance, node):
        if self.listened_elsewhere:
            self.listened_elsewhere -= 1
            del self.host[self.ports.pop(node)]
            raise PortInUseError("h")
        self.accepting_on.append(node)

    async def start_accepting(self):
        self.accepting = True

    def die(self):
        for node in list(self.ports):
            self.close_port(DEFAULT_LISTENER, None, node)


def image(count, *own):
    """Nodes from 1 on; those in `own` have gateways in their processes."""
    gateways = {
        GatewayId(f"g{n}"): GatewayState(
            gateway_id=GatewayId(f"g{n}"),
            host="h",
            port=P,
            single_port=False,
            node_id=NodeId(n),
        )
        for n in own
    }
    shown = replace(image_with(count), gateways=gateways)
    return replace(shown, node_gateways=assign_gateways(shown.nodes.values(), gateways))


def beside(count, other_port, *, own_port=P, node=NO_NODE):
    """Nodes from 1 on, the gateway "me" and, with the same advertised host, another one."""
    gateways = {
        GatewayId(name): GatewayState(
            gateway_id=GatewayId(name), host="h", port=port, single_port=False, node_id=NodeId(of)
        )
        for name, port, of in (("me", own_port, node), ("other", other_port, NO_NODE))
    }
    shown = replace(image_with(count), gateways=gateways)
    return replace(shown, node_gateways=assign_gateways(shown.nodes.values(), gateways))


class World:
    def __init__(self):
        self.host = {}
        self.failures = []
        self.tasks = TaskOwner(lambda *failure: self.failures.append(failure))
        self.blocks = []
        self.errors = []

    def block(self, node=NO_NODE, *, port=P, single_port=False, bootstrap_wait_s=0):
        listener = Listener(self.host)
        made = PortBlocks(
            listener,
            {DEFAULT_LISTENER: ("h", port)},
            tasks=self.tasks,
            node_id=NodeId(node),
            single_port=single_port,
            bootstrap_wait_s=bootstrap_wait_s,
            on_error=self.errors.append,
            on_instance_error=lambda *_: None,
        )
        self.blocks.append(made)
        return made, listener

    async def opened(self, node, shown, *, gateway_id="me", **more):
        made, listener = self.block(node, **more)
        await made.reserve()
        await made.open(shown, gateway_id)
        return made, listener


@pytest.fixture
async def w(monkeypatch):
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    monkeypatch.setattr(module, "OWN_PORT_WAIT_S", 0.2)
    made = World()
    yield made
    for block in made.blocks:
        block.close()
    assert await made.tasks.close(timeout_s=5)
    assert made.failures == []


# ---- a gateway by itself ----


async def test_it_has_the_ports_of_all_nodes_without_gateways_of_their_own(w):
    block, listener = await w.opened(NO_NODE, image(3, 2))
    assert listener.ports == {None: P, 1: P + 1, 3: P + 3}
    assert listener.accepting
    block.follow(image(4, 2))
    await until(lambda: listener.ports.get(4) == P + 4)


async def test_it_has_a_node_s_port_only_while_the_node_s_gateway_is_gone(w):
    block, listener = await w.opened(NO_NODE, image(2, 2))
    block.follow(image(2))
    await until(lambda: listener.ports.get(2) == P + 2)
    listener.busy.add(2)
    block.follow(image(2, 2))
    assert listener.ports == {None: P, 1: P + 1}
    await until(lambda: listener.sent_away.count(2) > 2)
    listener.busy.clear()
    await asyncio.sleep(0.05)
    count = len(listener.sent_away)
    await asyncio.sleep(0.05)
    assert len(listener.sent_away) == count, "all its clients are gone"


async def test_it_does_not_start_without_the_ports_of_nodes_that_have_no_other(w):
    w.host[P + 1] = w.host[P + 2] = None
    block, listener = w.block()
    await block.reserve()
    with pytest.raises(PortInUseError, match="h:9001"):
        await block.open(image(3, 2), "me")
    assert listener.ports == {None: P, 3: P + 3}


async def test_later_it_takes_a_port_as_soon_as_that_is_free(w):
    block, listener = await w.opened(NO_NODE, image(2, 2))
    w.host[P + 2] = None
    block.follow(image(2))
    await until(lambda: [str(error) for error in w.errors] == [str(PortInUseError("h:9002"))])
    await asyncio.sleep(0.05)
    assert len(w.errors) == 1
    del w.host[P + 2]
    await until(lambda: listener.ports.get(2) == P + 2)


async def test_it_does_not_start_without_its_bootstrap_port(w):
    w.host[P] = None
    block, _ = w.block()
    with pytest.raises(PortInUseError, match="h:9000"):
        await block.reserve()


async def test_the_system_may_choose_its_port(w):
    block, _ = w.block(port=0)
    await block.reserve()
    assert block.port(DEFAULT_LISTENER) == 4711


async def test_after_the_end_no_image_opens_a_port(w):
    for node in (NO_NODE, 1):
        w.host.clear()
        block, listener = await w.opened(node, image(1, 1))
        block.close()
        listener.die()
        block.follow(image(3, 1))
        await asyncio.sleep(0.05)
        assert listener.ports == {}


# ---- a node and its gateway ----


@pytest.mark.parametrize("node", [NO_NODE, 1])
async def test_one_port_serves_everything_if_asked_for(w, node):
    _, listener = await w.opened(node, image(1), single_port=True)
    assert listener.ports == {None: P}


async def test_it_opens_its_node_bootstrap_and_nodes_without_gateways(w):
    block, listener = w.block(2)
    await block.reserve()
    assert block.own_port == P + 2
    assert listener.ports == {2: P + 2}, "before it registers, only what it must have"
    await block.open(image(4, 2, 3), "me")
    assert listener.ports == {2: P + 2, None: P, 1: P + 1, 4: P + 4}
    block.follow(image(5, 2, 3))
    await until(lambda: listener.ports.get(5) == P + 5)


async def test_it_needs_a_port_that_does_not_change(w):
    block, _ = w.block(1, port=0)
    with pytest.raises(UsageError, match="port 0"):
        await block.reserve()


async def test_it_does_not_start_without_its_node_s_port(w):
    w.host[P + 1] = None
    block, _ = w.block(1)
    await block.reserve()
    with pytest.raises(PortInUseError, match="h:9001"):
        await block.open(image(1, 1), "me")


async def test_another_process_takes_the_shared_ports_over(w):
    both = image(3, 1, 2)
    gone, first = await w.opened(1, both)
    _, second = await w.opened(2, both)
    assert first.ports == {1: P + 1, None: P, 3: P + 3}
    assert second.ports == {2: P + 2}
    gone.close()  # A block that lived on would take the port again.
    first.die()
    await until(lambda: second.ports == {2: P + 2, None: P, 3: P + 3})


async def test_at_its_start_a_process_leaves_the_bootstrap_port_to_another(w):
    both = image(3, 1, 2)
    _, second = await w.opened(2, both, bootstrap_wait_s=60)
    await asyncio.sleep(0.05)
    assert second.ports == {2: P + 2, 3: P + 3}
    gone, first = await w.opened(1, both)
    assert first.ports == {1: P + 1, None: P}
    refused = second.refused
    await until(lambda: second.refused > refused)  # Now it knows that another one has been first.
    gone.close()  # A block that lived on would take the port again.
    first.die()
    await until(lambda: second.ports.get(None) == P)


async def test_if_the_other_does_not_come_it_takes_the_port(w):
    _, second = await w.opened(2, image(2, 1, 2), bootstrap_wait_s=0.1)
    assert None not in second.ports
    await until(lambda: second.ports.get(None) == P)


async def test_a_port_is_given_back_to_its_node(w):
    first, at_first = await w.opened(1, image(2, 1))
    assert at_first.ports[2] == P + 2
    at_first.busy.add(2)
    second, at_second = w.block(2)
    await second.reserve()
    assert at_second.ports == {}, "the first has it"
    opening = asyncio.create_task(second.open(image(2, 1, 2), "me"))
    await asyncio.sleep(0.05)
    assert not opening.done()
    first.follow(image(2, 1, 2))
    await opening
    assert at_second.ports == {2: P + 2}
    assert at_first.ports == {1: P + 1, None: P}
    await until(lambda: at_first.sent_away.count(2) > 2)
    at_first.busy.clear()
    await asyncio.sleep(0.05)
    count = len(at_first.sent_away)
    await asyncio.sleep(0.05)
    assert len(at_first.sent_away) == count, "all its clients are gone"


@pytest.mark.parametrize("node", [NO_NODE, 1])
async def test_a_port_that_cannot_be_opened_is_told_once_and_keeps_no_other_back(w, node):
    w.host[P + 3] = w.host[P + 5] = "another listener"
    block, listener = await w.opened(node, image(2, 1))
    block.follow(image(4, 1))
    await until(lambda: listener.ports.get(4) == P + 4)
    block.follow(image(6, 1))
    await until(lambda: listener.ports.get(6) == P + 6)
    await asyncio.sleep(0.05)
    assert [str(error) for error in w.errors] == [f"port {P + n} overlaps" for n in (3, 5)]
    del w.host[P + 3]
    await until(lambda: listener.ports.get(3) == P + 3)


async def test_an_image_that_comes_while_ports_are_opened_counts(w):
    block, listener = await w.opened(1, image(1, 1))
    block.follow(image(3, 1))
    await asyncio.sleep(0)
    block.follow(image(3, 1, 2, 3))
    await until(lambda: listener.ports == {1: P + 1, None: P})


# ---- blocks that overlap ----


async def test_a_block_ends_where_that_of_another_gateway_begins(w):
    block, listener = await w.opened(NO_NODE, beside(2, P + 3))
    assert listener.ports == {None: P, 1: P + 1, 2: P + 2}
    assert w.errors == []
    for count in (4, 5):
        block.follow(beside(count, P + 3))
        await asyncio.sleep(0.05)
    assert listener.ports == {None: P, 1: P + 1, 2: P + 2}
    (error,) = w.errors
    assert str(error).startswith("ports from 9003 on of listener default of gateway me (h:9000)")
    block.follow(image(5))
    await until(lambda: listener.ports.get(5) == P + 5)


async def test_an_overlap_counts_that_an_image_has_shown_before_the_ports_are_opened(w):
    block, listener = w.block()
    await block.reserve()
    shown = beside(4, P + 3)
    block.follow(shown)
    await block.open(shown, "me")
    assert listener.ports == {None: P, 1: P + 1, 2: P + 2}
    assert len(w.errors) == 1


async def test_ports_go_to_a_gateway_whose_block_begins_later(w):
    block, listener = await w.opened(NO_NODE, image(5))
    assert listener.ports[5] == P + 5
    block.follow(beside(5, P + 4))
    assert sorted(listener.ports.values()) == [P, P + 1, P + 2, P + 3]
    await until(lambda: {4, 5} <= set(listener.sent_away))
    _, at_other = await w.opened(NO_NODE, beside(5, P, own_port=P + 4), port=P + 4)
    assert at_other.ports == {None: P + 4} | {n: P + 4 + n for n in range(1, 6)}


async def test_a_node_whose_own_gateway_has_not_its_port_is_served_by_others(w):
    shown = beside(3, P + 2, node=2)
    _, listener = await w.opened(2, shown)
    assert listener.ports == {2: P + 2, None: P, 1: P + 1}
    assert len(w.errors) == 1
    w.host.clear()  # The other one is on another machine, behind the same address.
    _, at_other = await w.opened(NO_NODE, shown, gateway_id="other", port=P + 2)
    assert at_other.ports == {None: P + 2, 1: P + 3, 2: P + 4, 3: P + 5}


@pytest.mark.parametrize("times", [1, 3])
async def test_a_port_that_another_process_began_to_listen_on_is_waited_for(w, times):
    """That process had it for the node, whose own gateway was not there yet, and gives it back."""
    block, listener = w.block(2)
    await block.reserve()
    listener.listened_elsewhere = times
    await block.open(image(2, 2), "me")
    assert listener.accepting_on == [2]
    assert listener.ports[2] == P + 2


async def test_a_port_that_another_process_keeps_ends_the_start(w):
    block, listener = w.block(2)
    await block.reserve()
    listener.listened_elsewhere = 1_000
    with pytest.raises(PortInUseError):
        await block.open(image(2, 2), "me")
    assert not listener.accepting
