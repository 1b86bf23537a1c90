import pytest

from highwater.embed.clients.controller_session import converse, read_image
from highwater.model.errors import UnreachableError, UsageError


def test_the_result_of_work_is_returned():
    async def work(endpoints):
        return endpoints.addresses

    assert list(converse("127.0.0.1:1", work)) == ["127.0.0.1:1"]


def test_an_invalid_address_is_refused():
    async def work(_endpoints):
        raise AssertionError("nobody is called")

    with pytest.raises(UsageError, match="HOST:PORT"):
        converse("somewhere", work)


def test_no_server_answers(unused_port):
    with pytest.raises(UnreachableError, match="no answer from the controller"):
        converse(f"127.0.0.1:{unused_port}", lambda endpoints: read_image(endpoints, 0.3))
