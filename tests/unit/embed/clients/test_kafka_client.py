import socket
import threading
from contextlib import contextmanager

import pytest

from highwater.embed.clients.kafka_client import KafkaClient, parse_address
from highwater.model.errors import UnreachableError, UsageError


@contextmanager
def server(answer):
    """Accepts one connection, reads a request and sends `answer`; None sends nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        done = threading.Event()

        def serve():
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                if answer is None:
                    done.wait(10)
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            done.set()
            thread.join(10)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("a:1,b:2", ("a", 1)),
        ("[::1]:9092", ("::1", 9092)),
    ],
)
def test_addresses(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", ":9092", "host:0", "host:65536", "host:x"])
def test_invalid_addresses(text):
    with pytest.raises(UsageError, match="HOST:PORT"):
        parse_address(text)


def test_nothing_listens(unused_port):
    with pytest.raises(UnreachableError, match="cannot connect"):
        KafkaClient(f"127.0.0.1:{unused_port}")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"", "closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka's protocol"),
        (b"\0\0\0\5\0\0\0\1\0", "does not speak Kafka's protocol"),
        (b"\0\0\0\5\0\0\0\7\0", "answers another request"),
        (None, "does not answer within 0.2 s"),
    ],
)
def test_servers_that_are_not_brokers(answer, told):
    with (
        server(answer) as address,
        KafkaClient(address, timeout_s=0.2) as client,
        pytest.raises(UnreachableError, match=told),
    ):
        client.metadata()
