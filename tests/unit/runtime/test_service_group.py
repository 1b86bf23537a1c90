import asyncio
from contextlib import AsyncExitStack

import pytest

from highwater.runtime.service_group import ServiceGroup


class Member:
    def __init__(self, name, story, *, starts=True):
        self.failed = asyncio.get_running_loop().create_future()
        self._name, self._story, self._starts = name, story, starts

    async def start(self):
        self._story.append(f"{self._name} starts")
        if not self._starts:
            raise RuntimeError(self._name)

    async def stop(self):
        self._story.append(f"{self._name} stops")


async def test_services_stop_in_reverse_also_one_whose_start_failed():
    story = []
    async with AsyncExitStack() as stack:
        group = ServiceGroup(stack)
        await group.start(Member("node", story))
        with pytest.raises(RuntimeError, match="gateway"):
            await group.start(Member("gateway", story, starts=False))
    assert story == ["node starts", "gateway starts", "gateway stops", "node stops"]
    assert not group.failed.done()


async def test_the_first_failure_is_the_groups():
    async with AsyncExitStack() as stack:
        group = ServiceGroup(stack)
        members = [Member(name, []) for name in ("cancelled", "first", "second")]
        for member in members:
            await group.start(member)
        members[0].failed.cancel()
        for member, error in zip(members[1:], (OSError("first"), OSError("second")), strict=True):
            member.failed.set_exception(error)
        with pytest.raises(OSError, match="first"):
            await asyncio.wait_for(group.failed, 1)
