"""A node's unix socket, by which gateways and nodes of its host reach it without TCP (decision 124).

It is in the node's first log directory. Who finds the token of the node's incarnation there, as for
its segment files, tries the socket first at each attempt to connect, and then host:port.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from highwater.hop.segment_files import token_in
from highwater.model.errors import BindError
from highwater.rpc.addresses import UnixAddress

SOCKET_FILE: Final = ".highwater_hop"
PATH_BYTES_MAX: Final = 107
"""What the kernel's `sockaddr_un` takes, without its last zero (unix(7))."""


def socket_to_serve(log_dirs: Sequence[Path]) -> UnixAddress:
    """Where a node listens, in a directory that it has locked. Raises BindError.

    In a directory of another user, that one could put a socket of its own in its place.
    """
    address = UnixAddress(str(log_dirs[0] / SOCKET_FILE))
    if _is_too_long(address.path):
        raise BindError(str(address), f"the path has more than {PATH_BYTES_MAX} bytes")
    try:
        owner = log_dirs[0].stat().st_uid
    except OSError as error:
        raise BindError(str(address), error.strerror or str(error)) from None
    if owner != os.geteuid():
        raise BindError(str(address), "the directory belongs to another user")
    return address


def socket_of(log_dirs: Sequence[str], incarnation: str) -> UnixAddress | None:
    """The socket of a node's incarnation, as it has registered; None if that is on another host.

    Whether the socket is there and may be used shows when somebody connects.
    """
    if not log_dirs or token_in(Path(log_dirs[0])) != incarnation:
        return None
    path = str(Path(log_dirs[0]) / SOCKET_FILE)
    return None if _is_too_long(path) else UnixAddress(path)


def _is_too_long(path: str) -> bool:
    return len(os.fsencode(path)) > PATH_BYTES_MAX
