"""Addresses of peers and listeners: host:port, [IPv6]:port, unix:/path (as gRPC writes them)."""

from dataclasses import dataclass
from typing import Final

_UNIX: Final = "unix:"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host's name or number, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket in the file system."""

    path: str

    def __str__(self) -> str:
        return f"{_UNIX}{self.path}"


Address = TcpAddress | UnixAddress


def parse_address(text: str) -> Address:
    """The address that `text` names. Raises ValueError."""
    if text.startswith(_UNIX):
        return UnixAddress(text.removeprefix(_UNIX))
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise ValueError(f"no address: {text!r}")
    return TcpAddress(host.removeprefix("[").removesuffix("]"), int(port))
