import pytest

from highwater.embed.controller_session import converse, read_image
from highwater.model.errors import UnreachableError, UsageError


def test_what_work_gives_is_given():
    async def work(endpoints):
        return endpoints.addresses

    assert list(converse("127.0.0.1:1", work)) == ["127.0.0.1:1"]


def test_address_that_is_none():
    async def work(_endpoints):
        raise AssertionError("nobody is called")

    with pytest.raises(UsageError, match="HOST:PORT"):
        converse("somewhere", work)


def test_nobody_answers(unused_port):
    with pytest.raises(UnreachableError, match="no answer from the controller"):
        converse(f"127.0.0.1:{unused_port}", lambda endpoints: read_image(endpoints, 0.3))
