"""Asks whether a port can be listened on, and says in an operator's words why not."""

import errno
import socket

from highwater.model.errors import BindError, PortInUseError


def probe_port(host: str, port: int, *, address: str) -> None:
    """Binds a port for a moment. Raises PortInUseError or BindError, which name `address`.

    Another process may still take the port before the caller does. The probe does not listen: for
    that moment no other process could, and one that starts just then would give up.
    """
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUseError(address) from None
        raise BindError(address, error.strerror or str(error)) from None
