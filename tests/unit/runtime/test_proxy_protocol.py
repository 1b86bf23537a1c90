"""Valid and invalid headers of balancers."""

import struct

import pytest

from highwater.runtime.proxy_protocol import (
    HEADER_BYTES_MAX,
    LOCAL_HEADER,
    PREFIX_BYTES,
    SIGNATURE,
    ProxiedClient,
    ProxyHeaderError,
    header_bytes,
    read_header,
    tcp_header,
)

V4 = bytes([192, 0, 2, 7]) + bytes([10, 0, 0, 1]) + struct.pack(">HH", 51000, 9092)
V6 = bytes.fromhex("20010db8000000000000000000000042" * 2) + struct.pack(">HH", 52000, 9093)
UNIX = b"/run/client.sock".ljust(108, b"\0") + b"/run/server.sock".ljust(108, b"\0")


def header(command=0x21, family=0x11, rest=V4, *, length=None, signature=SIGNATURE):
    length = len(rest) if length is None else length
    return signature + struct.pack(">BBH", command, family, length) + rest


def tlv(kind, value, *, length=None):
    return struct.pack(">BH", kind, len(value) if length is None else length) + value


def test_the_bytes_of_the_specification():
    written = bytes.fromhex("0d0a0d0a000d0a515549540a 21 11 000c c0000207 0a000001 c738 2384")
    assert written == header()
    assert read_header(written) == ProxiedClient("192.0.2.7", 51000)


def test_clients_by_ipv6():
    assert read_header(header(family=0x21, rest=V6)) == ProxiedClient("2001:db8::42", 52000)
    mapped = bytes(10) + b"\xff\xff" + bytes([192, 0, 2, 9])
    rest = mapped * 2 + struct.pack(">HH", 1, 2)
    assert read_header(header(family=0x21, rest=rest)) == ProxiedClient("192.0.2.9", 1)


def test_headers_without_addresses():
    assert read_header(LOCAL_HEADER) is None
    assert read_header(header(command=0x20)) is None, "addresses of LOCAL are passed over"
    assert read_header(header(command=0x20, rest=b"\xff\xff")) is None, "whatever they are"
    assert read_header(header(family=0x31, rest=UNIX)) is None
    assert read_header(header(family=0x00, rest=b"anything")) is None


def test_extensions_are_skipped():
    rest = V4 + tlv(0x02, b"broker.example") + tlv(0x04, b"") + tlv(0xE1, bytes(300))
    assert read_header(header(rest=rest)) == ProxiedClient("192.0.2.7", 51000)
    assert read_header(header(family=0x31, rest=UNIX + tlv(0x05, b"id"))) is None


@pytest.mark.parametrize(
    "bad",
    [
        V4 + b"\x04",
        V4 + b"\x04\x00",
        V4 + tlv(0x04, b"abc", length=4),
        V4 + tlv(0x04, b"", length=0xFFFF),
        V4 + tlv(0x02, b"fine") + tlv(0x04, b"not", length=100),
    ],
)
def test_extensions_that_do_not_fit(bad):
    with pytest.raises(ProxyHeaderError, match="extension"):
        read_header(header(rest=bad))


def test_headers_have_a_maximum_length():
    longest = HEADER_BYTES_MAX - PREFIX_BYTES
    assert header_bytes(header(rest=b"", length=longest)) == HEADER_BYTES_MAX
    for length in (longest + 1, 0xFFFF):
        with pytest.raises(ProxyHeaderError, match="bytes"):
            header_bytes(header(rest=b"", length=length))


@pytest.mark.parametrize(
    "prefix",
    [
        b"PROXY TCP4 192.0",
        b"GET / HTTP/1.1\r\n",
        b"\0\0\0\x14\0\x12\0\0\0\0\0\x01\0\x03foo"[:16].ljust(16, b"\0"),
        header(signature=SIGNATURE[:-1] + b"\r")[:16],
    ],
)
def test_other_signatures(prefix):
    with pytest.raises(ProxyHeaderError, match="no PROXY"):
        header_bytes(prefix)


@pytest.mark.parametrize("command", [0x11, 0x31, 0x22, 0x2F, 0x00])
def test_other_versions_and_commands(command):
    with pytest.raises(ProxyHeaderError, match="version and command"):
        header_bytes(header(command=command)[:16])


@pytest.mark.parametrize("family", [0x12, 0x22, 0x32, 0x41, 0x10, 0xFF])
def test_other_families(family):
    with pytest.raises(ProxyHeaderError, match="address family"):
        read_header(header(family=family, rest=V6 + UNIX))


@pytest.mark.parametrize(("family", "rest"), [(0x11, V4), (0x21, V6), (0x31, UNIX)])
def test_headers_cut_short(family, rest):
    whole = header(family=family, rest=rest)
    assert header_bytes(whole[:PREFIX_BYTES]) == len(whole)
    for end in range(len(whole)):
        with pytest.raises(ProxyHeaderError, match="cut short"):
            read_header(whole[:end])
    with pytest.raises(ProxyHeaderError, match="longer"):
        read_header(whole + b"x")
    with pytest.raises(ProxyHeaderError, match="for addresses"):
        read_header(header(family=family, rest=rest[:-1]))


@pytest.mark.parametrize(
    ("source", "destination"),
    [
        (("203.0.113.5", 40000), ("192.0.2.1", 9092)),
        (("2001:db8::1", 40001), ("2001:db8::2", 9093)),
    ],
)
def test_headers_that_our_balancer_writes(source, destination):
    written = tcp_header(source, destination)
    assert header_bytes(written[:PREFIX_BYTES]) == len(written)
    assert read_header(written) == ProxiedClient(*source)
