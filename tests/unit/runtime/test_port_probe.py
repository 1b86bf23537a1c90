import socket

import pytest

from highwater.model.errors import BindError, PortInUseError
from highwater.runtime.port_probe import probe_port


def test_a_port_is_free_again_after_its_probe():
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    for _ in range(2):
        probe_port("127.0.0.1", port, address="here")


def test_a_port_that_another_socket_listens_on_is_in_use():
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(PortInUseError, match="here is already in use"),
    ):
        probe_port("127.0.0.1", other.getsockname()[1], address="here")


def test_an_address_of_another_host_is_refused_with_the_reason():
    with pytest.raises(BindError, match=r"cannot listen on there: .+"):
        probe_port("192.0.2.1", 0, address="there")
