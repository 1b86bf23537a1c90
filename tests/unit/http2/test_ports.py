import inspect

import pytest

from highwater.http2.ports import PayloadSink, StreamOwner
from highwater.http2.stream import Nobody
from highwater.rpc.client_call import ClientCall
from highwater.rpc.messages import MessageReader
from highwater.rpc.server_call import ServerCall


def methods(kind):
    return {
        name: list(inspect.signature(member).parameters)
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }


@pytest.mark.parametrize(
    ("kind", "port"),
    [
        (Nobody, StreamOwner),
        (Nobody, PayloadSink),
        (ClientCall, StreamOwner),
        (ServerCall, StreamOwner),
        (MessageReader, PayloadSink),
    ],
)
def test_owners_have_what_the_port_calls(kind, port):
    assert methods(port).items() <= methods(kind).items()
