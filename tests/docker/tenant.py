"""A tenant's client comes by the tenant's port, through the balancer."""

from __future__ import annotations

from docker.models.containers import Container

from tests.docker.clients import PATIENCE_S, Writer, assert_exactly_once, brokers, make_topic
from tests.docker.stack import Stack, wait_for

NAME = "shop"


def use_a_tenants_port(stack: Stack, topic: str) -> None:
    """Goes through the test, in a stack of three nodes: an instance comes, is used and goes.

    `topic` is one of the default instance.
    """
    (balancer,) = stack.containers("balancer")
    (controller,) = stack.containers("controller-1")
    port = stack.instance_port
    bootstrap = f"{stack.host}:{port}"
    _instance(controller, "create", NAME, "--port", str(port))
    _wait_for_ports(stack, balancer, 4)  # The bootstrap port, and one for each node.
    told = wait_for(lambda: _all_three(bootstrap), PATIENCE_S, stack.describe)
    assert told == {node: (stack.host, port + node) for node in (1, 2, 3)}
    mine = make_topic(bootstrap, 3)
    with Writer(bootstrap, mine) as writer:
        writer.wait_for_more(200)
    assert_exactly_once(bootstrap, mine, writer)
    with Writer(stack.bootstrap, topic) as other:
        other.wait_for_more(10)
    assert_exactly_once(stack.bootstrap, topic, other)
    _instance(controller, "delete", NAME, "--yes", "--after", "0")
    _wait_for_ports(stack, balancer, 0)


def _all_three(bootstrap: str) -> dict[int, tuple[str, int]] | None:
    told = {node: (one.host, one.port) for node, one in brokers(bootstrap).items()}
    return told if len(told) == 3 else None


def _instance(controller: Container, *words: str) -> None:
    command = ["highwater", "instance", *words, "--controller", "controller-1:9300"]
    code, told = controller.exec_run(command)
    assert code == 0, told


def _wait_for_ports(stack: Stack, balancer: Container, number: int) -> None:
    wait_for(
        lambda: stack.metric(balancer, "balancer_instance_ports") == number,
        PATIENCE_S,
        stack.describe,
    )
