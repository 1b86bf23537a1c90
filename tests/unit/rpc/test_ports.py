import inspect

import pytest

from highwater.rpc.channel import Channel
from highwater.rpc.client_call import ClientCall
from highwater.rpc.ports import (
    ClientStreamCall,
    RpcChannel,
    ServerCallbacks,
    ServerStreamCall,
    StreamCall,
    StreamChannel,
)
from highwater.rpc.server_call import ServerCall
from highwater.rpc.status import Status, StatusCode


@pytest.mark.parametrize(
    ("kind", "port"),
    [
        (ClientCall, StreamCall),
        (ClientCall, ClientStreamCall),
        (ServerCall, StreamCall),
        (ServerCall, ServerStreamCall),
        (Channel, StreamChannel),
        (Channel, RpcChannel),
    ],
)
def test_the_transport_has_what_the_ports_promise(kind, port):
    for name, member in vars(port).items():
        if name.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        assert hasattr(kind, name)
        if inspect.isfunction(member):
            promised = list(inspect.signature(member).parameters)
            assert list(inspect.signature(getattr(kind, name)).parameters) == promised


def test_callbacks_that_nobody_needs_do_nothing():
    callbacks = ServerCallbacks(on_message=lambda _message: None)
    callbacks.on_half_close()
    callbacks.on_writable()
    callbacks.on_end(Status(StatusCode.OK))


async def test_the_checker_agrees():
    # Assignments that mypy would refuse; here they show that nothing is abstract.
    channel: RpcChannel = Channel("127.0.0.1:1")
    call: ClientStreamCall = channel.stream(
        "/a/b", on_message=lambda _message: None, on_end=lambda _status: None
    )
    assert call.unsent_bytes == 0
    await channel.close()
