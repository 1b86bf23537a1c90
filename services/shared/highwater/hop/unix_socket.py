"""A node's unix socket, by which gateways and nodes of its host reach it without TCP (decision 124).

It is in the node's first log directory. Who finds the token of the node's incarnation there, as for
its segment files, tries the socket first at each attempt to connect, and then host:port.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from highwater.hop.segment_files import token_in
from highwater.model.errors import BindError
from highwater.rpc.addresses import UnixAddress

SOCKET_FILE: Final = ".highwater_hop"
PATH_BYTES_MAX: Final = 107
"""What the kernel's `sockaddr_un` takes, without its last zero (unix(7))."""


def socket_to_serve(log_dirs: Sequence[Path], *, private: bool = False) -> UnixAddress:
    """Where a node listens, in a directory that it has locked. Raises BindError.

    In a directory of another user, that one could put a socket of its own in its place; with
    `private` nobody else may be able to.
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
    if private and not is_private(address):
        raise BindError(str(address), "other users may change the directory")
    return address


def is_private(address: UnixAddress) -> bool:
    """Whether only this user, or root, can have put there what there is. The socket's own rights
    then say who may connect: this user.
    """
    try:
        found = Path(address.path).parent.stat()
    except OSError:
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    return found.st_uid in {os.geteuid(), 0} and not found.st_mode & others


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
