import socket


def test_nothing_listens_at_the_address(highwater):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, told = highwater("healthcheck", address)
    assert code == 1
    assert told.startswith(f"highwater: no answer from {address}")


def test_not_an_address(highwater):
    assert highwater("healthcheck", "9600")[0] == 2
