"""Binds listening sockets, with errors that say what the operator can do."""

import errno
import socket
import stat
from pathlib import Path

from highwater.model.errors import BindError, PortInUseError
from highwater.rpc.addresses import Address, TcpAddress, UnixAddress

_BACKLOG = 1_024
"""Connections that wait to be accepted; the system may have a lower limit."""


def bind(address: Address) -> socket.socket:
    """A listening socket. Raises PortInUseError or BindError.

    The path of a unix socket is taken over from a process that is gone.
    """
    try:
        if isinstance(address, UnixAddress):
            return _bind_unix(address)
        return _bind_tcp(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUseError(str(address)) from None
        raise BindError(str(address), error.strerror or str(error)) from None


def unbind(address: Address) -> None:
    """Removes the path of a unix socket that nobody listens on any more."""
    if isinstance(address, UnixAddress):
        Path(address.path).unlink(missing_ok=True)


def _bind_tcp(address: TcpAddress) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(
        address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # As gRPC: "::" takes IPv4, too.
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(where)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _bind_unix(address: UnixAddress) -> socket.socket:
    """For this user only; nobody can connect before it listens, when that is so."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        try:
            listener.bind(address.path)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or _answers(address.path):
                raise
            Path(address.path).unlink()
            listener.bind(address.path)
        Path(address.path).chmod(0o600)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _answers(path: str) -> bool:
    """Whether a process listens there; True for what is no socket, which we must not remove."""
    if not stat.S_ISSOCK(Path(path).stat().st_mode):
        return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        return True
