import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from highwater.embed.clients.acls import add_acl
from highwater.embed.clients.instances import (
    TRIES,
    KnownInstance,
    change_instance,
    create_instance,
    delete_instance,
    read_instance,
    read_instances,
    restore_instance,
)
from highwater.embed.clients.users import set_user
from highwater.model.errors import HighwaterError
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceListener, InstanceState
from highwater.model.scram import ScramMechanism
from tests.support.acls import acl
from tests.unit.embed.clients.test_users import controller  # noqa: F401 - a fixture.

SHOP = InstanceState(
    instance=InstanceId("shop"), listeners=(InstanceListener(port=19_000),), groups_max=4
)
DEFAULT = KnownInstance(state=InstanceState(instance=DEFAULT_INSTANCE))


def call(function, *arguments, **named):
    return asyncio.to_thread(function, *arguments, **named)


async def test_the_life_of_an_instance(controller):  # noqa: F811
    assert await call(read_instances, controller) == [DEFAULT]
    await call(create_instance, controller, SHOP)
    await call(create_instance, controller, InstanceState(instance=InstanceId("a")))
    mechanism = ScramMechanism.SCRAM_SHA_256
    await call(set_user, controller, "shop", "alice", b"x", mechanism, 4096)
    await call(add_acl, controller, acl("t", instance=SHOP.instance))
    known = await call(read_instances, controller)
    assert [one.state.instance for one in known] == ["default", "a", "shop"]
    assert known[2] == KnownInstance(state=SHOP, users=1, acls=1)
    changed = await call(
        change_instance, controller, "shop", lambda present: replace(present, storage_bytes=5)
    )
    assert changed == replace(SHOP, storage_bytes=5)
    at_ms = await call(delete_instance, controller, "shop", purge_after_ms=3_600_000)
    assert (await call(read_instance, controller, "shop")).state.purge_at_ms == at_ms
    await call(restore_instance, controller, "shop")
    assert (await call(read_instance, controller, "shop")).state == changed


async def test_the_default_instance_gets_limits(controller):  # noqa: F811
    wanted = InstanceState(instance=DEFAULT_INSTANCE, partitions_max=3)
    assert await call(change_instance, controller, "default", lambda _: wanted) == wanted
    assert (await call(read_instance, controller, "default")).state == wanted


@pytest.mark.parametrize(
    "ask",
    [
        lambda address: read_instance(address, "nobody"),
        lambda address: change_instance(address, "nobody", lambda present: present),
        lambda address: delete_instance(address, "nobody", purge_after_ms=0),
        lambda address: restore_instance(address, "nobody"),
    ],
)
async def test_an_instance_that_is_not_there(controller, ask):  # noqa: F811
    with pytest.raises(HighwaterError, match="there is no instance 'nobody'"):
        await call(ask, controller)


async def test_what_the_controller_refuses_is_told(controller):  # noqa: F811
    await call(create_instance, controller, SHOP)
    with pytest.raises(HighwaterError, match="exists already"):
        await call(create_instance, controller, SHOP)


async def test_two_who_change_one_thing_each_keep_both(controller):  # noqa: F811
    await call(create_instance, controller, SHOP)
    seen = []

    def change(present):
        seen.append(present)
        if len(seen) == 1:  # Somebody else is faster.
            interloper.result()
        return replace(present, storage_bytes=5)

    with ThreadPoolExecutor() as threads:
        interloper = threads.submit(
            change_instance, controller, "shop", lambda present: replace(present, groups_max=9)
        )
        changed = await call(change_instance, controller, "shop", change)
    assert (changed.storage_bytes, changed.groups_max) == (5, 9)
    assert (await call(read_instance, controller, "shop")).state == changed


async def test_it_gives_up_in_the_end(controller):  # noqa: F811
    await call(create_instance, controller, SHOP)
    limits = iter(range(100))

    def change(present):
        other = next(limits)
        change_in_thread(controller, lambda state: replace(state, partitions_max=other))
        return replace(present, storage_bytes=5)

    with pytest.raises(HighwaterError, match="changed by somebody else meanwhile"):
        await call(change_instance, controller, "shop", change)
    assert next(limits) == TRIES


def change_in_thread(address, change):
    with ThreadPoolExecutor() as threads:
        threads.submit(change_instance, address, "shop", change).result()
