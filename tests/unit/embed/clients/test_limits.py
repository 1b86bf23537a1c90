import asyncio

import pytest

from highwater.controller.config import ControllerConfig
from highwater.controller.service import ControllerService
from highwater.embed.clients.instances import create_instance
from highwater.embed.clients.limits import LimitChange, change_limits, read_limits
from highwater.model.errors import HighwaterError, UnreachableError, UsageError
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState


@pytest.fixture
async def controller():
    service = ControllerService(
        ControllerConfig(host="127.0.0.1", port=0, controller_id="c", store="memory")
    )
    await service.start()
    await service.wait_active(10)
    yield service.address
    await service.stop()


def change(address, produce=None, consume=None, instance="one"):
    wanted = LimitChange(produce=produce, consume=consume)
    return asyncio.to_thread(change_limits, address, instance, wanted)


async def test_unnamed_limits_stay(controller):
    for name in ("one", "another"):
        made = InstanceState(instance=InstanceId(name), groups_max=4)
        await asyncio.to_thread(create_instance, controller, made)
    first = await change(controller, produce=1000)
    assert (first.produce_bytes_per_second, first.consume_bytes_per_second) == (1000, None)
    second = await change(controller, consume=5)
    assert (second.produce_bytes_per_second, second.consume_bytes_per_second) == (1000, 5)
    third = await change(controller, produce=-1)
    assert (third.produce_bytes_per_second, third.consume_bytes_per_second) == (None, 5)
    await change(controller, produce=0, instance="another")
    assert third.groups_max == 4
    read = await asyncio.to_thread(read_limits, controller)
    assert [(one.instance, one.produce_bytes_per_second) for one in read] == [
        ("another", 0), ("one", None),
    ]  # fmt: skip


async def test_an_instance_that_is_not_there_gets_no_limits(controller):
    with pytest.raises(HighwaterError, match="there is no instance 'nobody'"):
        await change(controller, produce=1, instance="nobody")
    everyone = await change(controller, produce=1, instance="default")
    assert everyone.produce_bytes_per_second == 1


async def test_no_server_answers(monkeypatch, unused_port):
    monkeypatch.setattr("highwater.embed.clients.limits.TIMEOUT_S", 0.3)
    with pytest.raises(UnreachableError, match="no answer from the controller"):
        await asyncio.to_thread(read_limits, f"127.0.0.1:{unused_port}")


def test_an_invalid_address_is_refused():
    with pytest.raises(UsageError, match="HOST:PORT"):
        read_limits("somewhere")
