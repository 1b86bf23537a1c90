"""Finds and checks free ports before anything is started."""

import random
from collections.abc import Collection
from typing import Final

from highwater.model.errors import PortInUseError, UsageError
from highwater.runtime.port_probe import probe_port

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
        probe_port(host, port, address=f"{host}:{port}")
