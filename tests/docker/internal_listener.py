"""What a container of the network and a client outside are told of one cluster, and that both work."""

from __future__ import annotations

from tests.docker.clients import Writer, brokers, read
from tests.docker.inside import run_client
from tests.docker.stack import INTERNAL_PORT, Stack


def use_the_internal_listener(stack: Stack, topic: str) -> dict[int, str]:
    """Goes through the test, in a stack of three nodes. Returns the hosts by node of the listener."""
    with Writer(stack.bootstrap, topic) as writer:
        writer.wait_for_more(200)
    inside = run_client(stack, stack.internal_bootstrap, topic, len(writer.acked), "inside")
    assert set(inside.read) == writer.acked, "what was sent outside"
    # A gateway is told by its container's id, which is its host name.
    ids = {one.id[:12] for one in stack.containers(stack.gateways)}
    assert {host for host, _ in inside.brokers.values()} <= ids
    assert {node: port for node, (_, port) in inside.brokers.items()} == {
        node: INTERNAL_PORT + node for node in (1, 2, 3)
    }
    found = read(stack.bootstrap, topic, writer.acked | inside.sent)
    assert len(found) == len(writer.acked) + len(inside.sent)
    assert set(found) == writer.acked | inside.sent
    told = brokers(stack.bootstrap).values()
    assert {(one.host, one.port) for one in told} == {
        (stack.host, stack.port + node) for node in (1, 2, 3)
    }, "clients outside are told the balancer's ports only"
    return {node: host for node, (host, _) in inside.brokers.items()}
