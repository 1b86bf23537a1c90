import socket
from contextlib import closing

from highwater.runtime import silent_peers
from highwater.runtime.silent_peers import SILENT_S, close_when_silent, drop_unsent


def options_of(sock):
    names = ("TCP_USER_TIMEOUT", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
    tcp = [sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names]
    return *tcp, sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_the_kernel_is_told_of_both_limits():
    with closing(socket.socket()) as sock:
        usual = options_of(sock)
        drop_unsent(sock)
        assert options_of(sock) == (SILENT_S * 1000, *usual[1:])
    with closing(socket.socket()) as sock:
        close_when_silent(sock)
        user_ms, idle_s, every_s, probes, on = options_of(sock)
    assert (user_ms, on) == (usual[0], 1), "a client that reads slowly keeps its connection"
    assert idle_s + every_s * probes == SILENT_S


def test_a_system_without_the_options_keeps_its_own_limits(monkeypatch):
    monkeypatch.setattr(silent_peers, "_TCP_USER_TIMEOUT", None)
    monkeypatch.setattr(silent_peers, "_TCP_KEEPIDLE", None)
    with closing(socket.socket()) as sock:
        usual = options_of(sock)
        close_when_silent(sock)
        drop_unsent(sock)
        assert options_of(sock) == usual
