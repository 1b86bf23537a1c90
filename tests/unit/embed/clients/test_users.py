import asyncio

import pytest

from highwater.controller.config import ControllerConfig
from highwater.controller.service import ControllerService
from highwater.embed.clients.users import delete_user, list_users, set_user
from highwater.model.errors import HighwaterError
from highwater.model.scram import ScramMechanism

SHA_256, SHA_512 = ScramMechanism


@pytest.fixture
async def controller():
    service = ControllerService(
        ControllerConfig(host="127.0.0.1", port=0, controller_id="c", store="memory")
    )
    await service.start()
    await service.wait_active(10)
    yield service.address
    await service.stop()


async def known(address, instance="default"):
    users = await asyncio.to_thread(list_users, address, instance)
    return [(user.name, user.iterations) for user in users]


async def test_users_are_set_listed_and_removed(controller):
    for name, mechanism, iterations in (
        ("bob", SHA_512, 4096),
        ("alice", SHA_512, 4096),
        ("alice", SHA_256, 8192),
        ("alice", SHA_512, 5000),
    ):
        await asyncio.to_thread(
            set_user, controller, "default", name, b"secret", mechanism, iterations
        )
    assert await known(controller) == [
        ("alice", {SHA_256: 8192, SHA_512: 5000}),
        ("bob", {SHA_512: 4096}),
    ]
    assert await known(controller, "other") == []
    await asyncio.to_thread(delete_user, controller, "default", "alice")
    assert await known(controller) == [("bob", {SHA_512: 4096})]


async def test_a_user_who_is_not_there_cannot_be_removed(controller):
    with pytest.raises(HighwaterError, match="user nobody: "):
        await asyncio.to_thread(delete_user, controller, "default", "nobody")


async def test_what_the_controller_refuses_is_told(controller):
    with pytest.raises(HighwaterError, match="user alice: Too few iterations"):
        await asyncio.to_thread(set_user, controller, "default", "alice", b"x", SHA_256, 1)
