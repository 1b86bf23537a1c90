import socket

import pytest

from highwater.model.errors import BindError, PortInUseError
from highwater.runtime import port_probe
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


def test_a_process_that_has_bound_the_port_can_listen_during_the_probe(monkeypatch):
    """Or it would say that the port is in use, and end."""
    with socket.socket() as starting:
        starting.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        starting.bind(("127.0.0.1", 0))

        class Probe(socket.socket):
            def close(self):
                starting.listen()
                super().close()

        monkeypatch.setattr(port_probe.socket, "socket", Probe)
        probe_port("127.0.0.1", starting.getsockname()[1], address="here")
        monkeypatch.undo()
        socket.create_connection(starting.getsockname()).close()


def test_an_address_of_another_host_is_refused_with_the_reason():
    with pytest.raises(BindError, match=r"cannot listen on there: .+"):
        probe_port("192.0.2.1", 0, address="there")
