import inspect

import pytest

from highwater.http2.connection_owner import ConnectionOwner
from highwater.rpc.client_connection import ClientConnection
from highwater.rpc.server_connection import ServerConnection

CALLED = [name for name in vars(ConnectionOwner) if name.startswith("on_")]


@pytest.mark.parametrize("name", CALLED)
@pytest.mark.parametrize("kind", [ClientConnection, ServerConnection])
def test_owners_have_what_the_connection_calls(kind, name):
    promised = inspect.signature(getattr(ConnectionOwner, name)).parameters
    assert list(inspect.signature(getattr(kind, name)).parameters) == list(promised)
