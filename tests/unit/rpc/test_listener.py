import socket

import pytest

from highwater.model.errors import BindError, PortInUseError
from highwater.rpc.addresses import TcpAddress, UnixAddress
from highwater.rpc.listener import bind, unbind


def test_port_0_is_chosen_by_the_system():
    with bind(TcpAddress("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert port > 0
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass


def test_a_port_in_use():
    with bind(TcpAddress("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(PortInUseError, match=f"127.0.0.1:{port}"):
            bind(TcpAddress("127.0.0.1", port))


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_ours(host):
    with pytest.raises(BindError, match=host):
        bind(TcpAddress(host, 50_051))


def test_ipv6_takes_ipv4_too():
    try:
        listener = bind(TcpAddress("::", 0))
    except BindError:
        pytest.skip("no IPv6 here")
    with listener, socket.create_connection(("127.0.0.1", listener.getsockname()[1]), timeout=5):
        pass


def test_a_unix_socket_in_use(tmp_path):
    address = UnixAddress(str(tmp_path / "socket"))
    with bind(address), pytest.raises(PortInUseError, match="unix:"):
        bind(address)


def test_a_unix_socket_of_a_process_that_is_gone_is_taken_over(tmp_path):
    address = UnixAddress(str(tmp_path / "socket"))
    bind(address).close()
    with bind(address):
        pass


def test_a_path_is_removed_in_the_end(tmp_path):
    address = UnixAddress(str(tmp_path / "socket"))
    bind(address).close()
    unbind(address)
    unbind(address)
    unbind(TcpAddress("127.0.0.1", 1))
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_never_removed(tmp_path):
    path = tmp_path / "file"
    path.write_text("precious")
    with pytest.raises(PortInUseError):
        bind(UnixAddress(str(path)))
    assert path.read_text() == "precious"


def test_a_directory_that_is_missing(tmp_path):
    with pytest.raises(BindError, match="No such file"):
        bind(UnixAddress(str(tmp_path / "missing" / "socket")))
