"""Finds and checks free ports before anything is started."""

import errno
import random
import socket
from collections.abc import Collection
from typing import Final

from highwater.model.errors import BindError, PortInUseError, UsageError

_PORTS: Final = range(20_000, 32_000)
"""Below Linux's ephemeral range, so that no outgoing connection takes a chosen port."""

_TRIES_MAX: Final = 200


def free_ports(host: str, count: int, *, apart: Collection[int] = ()) -> int:
    """The first of `count` consecutive ports that are free now; others may still take them.

    None of them is in `apart`: ports that are chosen already, and not listened on yet.
    """
    for _ in range(_TRIES_MAX):
        first = random.choice(_PORTS)
        if not set(apart).isdisjoint(range(first, first + count)):
            continue
        try:
            check_ports(host, first, count)
        except PortInUseError:
            continue
        return first
    raise UsageError(f"no {count} free ports in a row on {host}")


def check_ports(host: str, first: int, count: int = 1) -> None:
    """Raises PortInUseError or BindError for the first port that cannot be listened on."""
    for port in range(first, first + count):
        address = f"{host}:{port}"
        try:
            family, kind, protocol, _, where = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(where)
                probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUseError(address) from None
            raise BindError(address, error.strerror or str(error)) from None
