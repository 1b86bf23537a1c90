"""Ports of instances open and close as images come."""

import asyncio
from dataclasses import replace

import pytest

from highwater.balancer.sockets import instance_ports as module
from highwater.balancer.sockets.instance_ports import InstancePorts
from highwater.model.errors import PortInUseError
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceListener, InstanceState
from highwater.model.listener_names import DEFAULT_LISTENER
from highwater.runtime.logging import silent_logger
from tests.support.controller_images import image_with


class Host:
    def __init__(self):
        self.open = {}
        self.taken = set()
        self.tries = 0

    async def listen(self, port, leads_to):
        self.tries += 1
        if port in self.taken or port in self.open:
            raise PortInUseError(f"h:{port}")
        self.open[port] = leads_to
        return Server(self, port)


class Server:
    def __init__(self, host, port):
        self.close = lambda: host.open.pop(port)


def image(**ports):
    instances = {
        InstanceId(name): InstanceState(
            instance=InstanceId(name),
            listeners=(InstanceListener(port=port, advertised_port=told),),
        )
        for name, (told, port) in ports.items()
    }
    return replace(image_with(1), instances=instances)


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


@pytest.fixture
def host():
    return Host()


@pytest.fixture
async def ports(host, monkeypatch):
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    made = InstancePorts(DEFAULT_LISTENER, host.listen, log=silent_logger())
    running = asyncio.create_task(made.run())
    yield made
    running.cancel()
    made.close()
    assert host.open == {}


async def test_they_follow_the_image(ports, host):
    ports.follow(image(a=(20000, 10000)), None)
    await until(lambda: host.open == {20000: 10000, 20001: 10001})
    assert ports.ports == {20000, 20001}
    ports.follow(image(a=(20000, 11000), b=(30000, 30000)), None)
    await until(lambda: host.open == {20000: 11000, 20001: 11001, 30000: 30000, 30001: 30001})
    ports.follow(image(), None)
    await until(lambda: host.open == {})


async def test_nothing_is_done_when_nothing_changes(ports, host):
    ports.follow(image(a=(20000, 10000)), None)
    await until(lambda: len(host.open) == 2)
    ports.follow(image(a=(20000, 10000)), None)
    await asyncio.sleep(0.05)
    assert host.tries == 2


async def test_a_port_that_is_taken_is_tried_again(ports, host):
    host.taken.add(20000)
    ports.follow(image(a=(20000, 10000)), None)
    await until(lambda: ports.missing == 1)
    assert host.open == {20001: 10001}
    host.taken.clear()
    await until(lambda: len(host.open) == 2)
    assert ports.missing == 0
