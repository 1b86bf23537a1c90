import pytest

from highwater.rpc.addresses import TcpAddress, UnixAddress, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host:1", TcpAddress("host", 1)),
        ("[::1]:65535", TcpAddress("::1", 65535)),
        ("unix:/run/x:y", UnixAddress("/run/x:y")),
    ],
)
def test_addresses_are_read_and_written(text, address):
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["host", "host:", "host:x", "host:65536", "host:-1"])
def test_what_is_no_address(text):
    with pytest.raises(ValueError, match="no address"):
        parse_address(text)
