import socket

import pytest

from highwater.embed.up import ports
from highwater.embed.up.ports import check_ports, free_ports
from highwater.model.errors import BindError, PortInUseError


def test_free_ports_can_be_listened_on():
    first = free_ports("127.0.0.1", 3)
    check_ports("127.0.0.1", first, 3)


def test_ports_that_are_chosen_already_are_not_chosen_again(monkeypatch):
    first = free_ports("127.0.0.1", 10)
    tries = iter([first, first + 2, first + 5])
    monkeypatch.setattr(ports.random, "choice", lambda _: next(tries))
    assert free_ports("127.0.0.1", 3, apart={first + 2, first + 4}) == first + 5


def test_taken_port_inside_a_block_is_named():
    first = free_ports("127.0.0.1", 3)
    with (
        socket.create_server(("127.0.0.1", first + 1)),
        pytest.raises(PortInUseError, match=f"127.0.0.1:{first + 1} is already in use"),
    ):
        check_ports("127.0.0.1", first, 3)


def test_an_address_of_another_host_is_refused():
    with pytest.raises(BindError, match=r"cannot listen on 192\.0\.2\.1:0"):
        check_ports("192.0.2.1", 0)
