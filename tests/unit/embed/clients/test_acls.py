import asyncio

import pytest

from highwater.embed.clients.acls import add_acl, list_acls, remove_acl
from highwater.embed.clients.instances import create_instance
from highwater.model.errors import HighwaterError
from highwater.model.ids import InstanceId
from highwater.model.instances import InstanceState
from tests.support.acls import acl
from tests.unit.embed.clients.test_users import controller  # noqa: F401 - a fixture.


async def known(address, instance="default"):
    return await asyncio.to_thread(list_acls, address, instance)


async def test_acls_are_added_listed_and_removed(controller):  # noqa: F811
    other = InstanceState(instance=InstanceId("other"))
    await asyncio.to_thread(create_instance, controller, other)
    first, second = acl("a"), acl("b/c", host="h")
    elsewhere = acl("a", instance=InstanceId("other"))
    for one in (second, first, first, elsewhere):
        await asyncio.to_thread(add_acl, controller, one)
    assert await known(controller) == [first, second]
    assert await known(controller, "other") == [elsewhere]
    assert await asyncio.to_thread(remove_acl, controller, first)
    assert not await asyncio.to_thread(remove_acl, controller, first)
    assert await known(controller) == [second]


async def test_what_the_controller_refuses_is_told(controller):  # noqa: F811
    with pytest.raises(HighwaterError, match="no colon"):
        await asyncio.to_thread(add_acl, controller, acl(principal="alice"))
