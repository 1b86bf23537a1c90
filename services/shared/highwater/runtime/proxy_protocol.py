"""The PROXY protocol, version 2, by which a balancer names the client of a connection.

A balancer sends one binary header ahead of the client's bytes (HAProxy, doc/proxy-protocol.txt,
section 2.2): a signature of 12 bytes, version and command, address family and transport, length of
the rest as u16, then the addresses, then extensions (TLVs), of which only the lengths are checked.
Version 1, a line of text, is refused. No I/O here.
"""

from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from typing import Final, NamedTuple

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
PREFIX_BYTES: Final = 16
HEADER_BYTES_MAX: Final = 2048
"""Limit of a whole header. Addresses take at most 216 bytes; balancers add names and ids."""

_LOCAL: Final = 0x20
_PROXY: Final = 0x21
_UNSPECIFIED: Final = 0x00
_TCP4: Final = 0x11
_TCP6: Final = 0x21
_UNIX_STREAM: Final = 0x31
_PREFIX: Final = Struct(">12sBBH")
_TCP4_ADDRESSES: Final = Struct(">4s4sHH")
_TCP6_ADDRESSES: Final = Struct(">16s16sHH")
_UNIX_ADDRESS_BYTES: Final = 2 * 108
_TLV: Final = Struct(">BH")


class ProxyHeaderError(ValueError):
    """The bytes are not a valid header; the connection must be closed."""


class ProxiedClient(NamedTuple):
    """The address of the client."""

    host: str
    port: int


def header_bytes(prefix: bytes) -> int:
    """The length of the header that begins with these 16 bytes. Raises ProxyHeaderError."""
    assert len(prefix) == PREFIX_BYTES
    signature, command, _, length = _PREFIX.unpack(prefix)
    if signature != SIGNATURE:
        raise ProxyHeaderError("no PROXY protocol header of version 2")
    if command not in {_LOCAL, _PROXY}:
        raise ProxyHeaderError(f"version and command {command:#04x}")
    size = PREFIX_BYTES + int(length)
    if size > HEADER_BYTES_MAX:
        raise ProxyHeaderError(f"a header of {size} bytes")
    return size


def read_header(header: bytes) -> ProxiedClient | None:
    """The client that a whole header names; None if it names none. Raises ProxyHeaderError.

    Headers of the balancer's own connections (health checks) and of clients without an IP address
    name none: the client's address is then the socket's.
    """
    if len(header) < PREFIX_BYTES:
        raise ProxyHeaderError("a header cut short")
    _, command, family, _ = _PREFIX.unpack_from(header)
    if len(header) != header_bytes(header[:PREFIX_BYTES]):
        raise ProxyHeaderError("a header cut short, or longer than it says")
    if command == _LOCAL:
        return None  # The rest of the header is to be ignored.
    rest = header[PREFIX_BYTES:]
    client: ProxiedClient | None = None
    if family == _TCP4:
        _check_room(rest, _TCP4_ADDRESSES.size)
        source, _, port, _ = _TCP4_ADDRESSES.unpack_from(rest)
        client, tlvs = ProxiedClient(str(IPv4Address(source)), port), _TCP4_ADDRESSES.size
    elif family == _TCP6:
        _check_room(rest, _TCP6_ADDRESSES.size)
        source, _, port, _ = _TCP6_ADDRESSES.unpack_from(rest)
        client, tlvs = ProxiedClient(_ipv6_text(source), port), _TCP6_ADDRESSES.size
    elif family == _UNIX_STREAM:
        _check_room(rest, _UNIX_ADDRESS_BYTES)
        tlvs = _UNIX_ADDRESS_BYTES
    elif family == _UNSPECIFIED:
        return None  # The same: addresses of an unknown family have no known length.
    else:
        raise ProxyHeaderError(f"address family and transport {family:#04x}")
    _check_tlvs(rest, tlvs)
    return client


def tcp_header(source: tuple[str, int], destination: tuple[str, int]) -> bytes:
    """The header of a client's TCP connection. Both addresses are IPv4, or both IPv6."""
    hosts = [source[0], destination[0]]
    if ":" in hosts[0]:
        family = _TCP6
        packed = [IPv6Address(host).packed for host in hosts]
        rest = _TCP6_ADDRESSES.pack(*packed, source[1], destination[1])
    else:
        family = _TCP4
        packed = [IPv4Address(host).packed for host in hosts]
        rest = _TCP4_ADDRESSES.pack(*packed, source[1], destination[1])
    return _PREFIX.pack(SIGNATURE, _PROXY, family, len(rest)) + rest


LOCAL_HEADER: Final = _PREFIX.pack(SIGNATURE, _LOCAL, _UNSPECIFIED, 0)
"""The header of a connection that a balancer opens for itself."""


def _ipv6_text(packed: bytes) -> str:
    """The address as text; an IPv4 address that is mapped into IPv6 is shown as IPv4."""
    address = IPv6Address(packed)
    return str(address.ipv4_mapped or address)


def _check_room(rest: bytes, wanted: int) -> None:
    if len(rest) < wanted:
        raise ProxyHeaderError(f"{len(rest)} bytes for addresses of {wanted}")


def _check_tlvs(rest: bytes, start: int) -> None:
    while start < len(rest):
        if len(rest) - start < _TLV.size:
            raise ProxyHeaderError("an extension cut short")
        kind, length = _TLV.unpack_from(rest, start)
        start += _TLV.size + length
        if start > len(rest):
            raise ProxyHeaderError(f"extension {kind:#04x} is longer than the header")
