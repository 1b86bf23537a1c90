"""An issuer's keys from a web server: keys that change, and all that may be wrong with it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from highwater.gateway.login import key_set
from highwater.gateway.login.key_set import AGAIN_S_MIN, SET_BYTES_MAX, KeySet, read_url
from highwater.gateway.login.scram_server import LoginRefused
from tests.support.tokens import Issuer

REFRESH_S = 100.0
OLD, NEW = Issuer("old", kind="EC"), Issuer("new", kind="EC")
Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers as the test says."""

    server: Server

    def do_GET(self) -> None:
        self.server.asked += 1
        try:
            self.server.answer(self)
        except ConnectionError:
            return  # The reader had enough.

    def log_message(self, *_: Any) -> None:
        """Writes nothing."""


class Server(ThreadingHTTPServer):
    """A web server on loopback."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer: Answer = document(OLD.document())
        self.asked = 0
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/keys"


def document(body: bytes, *, status: int = 200, length: int | None = None) -> Answer:
    def answer(handler: Handler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def moved_to(url: str) -> Answer:
    def answer(handler: Handler) -> None:
        handler.send_response(302)
        handler.send_header("Location", url)
        handler.end_headers()

    return answer


def endless(part: bytes, pause_s: float) -> Answer:
    """Without a length, until the reader goes or the test ends."""

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not handler.server.over.is_set():
            handler.wfile.write(part)
            handler.wfile.flush()
            time.sleep(pause_s)

    return answer


def no_http(handler: Handler) -> None:
    handler.wfile.write(b"\x16\x03\x01\x00\x05hello\r\n\r\n")


def hangs_up(handler: Handler) -> None:
    handler.connection.close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        made.over.set()
        made.shutdown()
        made.server_close()
        thread.join()


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def warning(self, event: str, **values: object) -> None:
        self.lines.append((event, values))


class Reader:
    """A gateway's key set; the test is its clock."""

    def __init__(self, server: Server, executor: ThreadPoolExecutor) -> None:
        self.now_s = 0.0
        self.log = Log()
        log: Any = self.log
        self.keys = KeySet(
            server.url, refresh_s=REFRESH_S, reading=executor, now_s=lambda: self.now_s, log=log
        )


@pytest.fixture
def reader(server: Server) -> Iterator[Reader]:
    with ThreadPoolExecutor(1) as executor:
        yield Reader(server, executor)


async def test_keys_that_are_replaced(server: Server, reader: Reader) -> None:
    assert await reader.keys.find("old")
    server.answer = document(OLD.document(NEW))
    reader.now_s += AGAIN_S_MIN
    assert await reader.keys.find("new"), "a token that names it has it read"
    assert await reader.keys.find("old"), "both count while the issuer says so"
    server.answer = document(NEW.document())
    reader.now_s += REFRESH_S
    assert await reader.keys.find("new")
    with pytest.raises(LoginRefused):
        await reader.keys.find("old")
    assert server.asked == 3
    assert reader.log.lines == []


WRONG: dict[str, Answer] = {
    "an error": document(b"down", status=503),
    "not there": document(b"{}", status=404),
    "a page": document(b"<html>Log in first</html>"),
    "no text": document(bytes(range(256))),
    "nothing": document(b""),
    "no set": document(b'{"keys": {"kid": "old"}}'),
    "half of it": document(OLD.document()[:-20], length=len(OLD.document())),
    "no HTTP": no_http,
    "no answer": hangs_up,
    "too much": document(b" " * (SET_BYTES_MAX + 1)),
    "too much without a length": endless(b" " * 100_000, 0.0),
    "a file": moved_to("file:///etc/hostname"),
    "itself, for ever": moved_to("/keys"),
}


@pytest.mark.parametrize("what", WRONG)
async def test_whatever_is_wrong_leaves_the_former_keys(
    server: Server, reader: Reader, what: str
) -> None:
    assert await reader.keys.find("old")
    server.answer = WRONG[what]
    reader.now_s += REFRESH_S
    assert await reader.keys.find("old")
    ((event, values),) = reader.log.lines
    assert (event, values["url"]) == ("oauth_keys_not_read", server.url)
    assert len(str(values["error"])) < 500, "nothing of the document is told"
    server.answer = document(NEW.document())
    reader.now_s += AGAIN_S_MIN
    assert await reader.keys.find("new"), "and it is tried again"


async def test_a_server_that_is_down_at_first(server: Server, reader: Reader) -> None:
    server.answer = hangs_up
    with pytest.raises(LoginRefused):
        await reader.keys.find("old")
    asked = server.asked
    with pytest.raises(LoginRefused):
        await reader.keys.find("old")
    assert server.asked == asked, "not at every login"
    server.answer = document(OLD.document())
    reader.now_s += AGAIN_S_MIN
    assert await reader.keys.find("old")


def test_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="refused"):
            read_url(f"http://127.0.0.1:{bound.getsockname()[1]}/keys")


@pytest.mark.parametrize(
    "answer", [endless(b" ", 0.02), lambda handler: handler.server.over.wait(5)]
)
def test_a_slow_answer_has_an_end(
    server: Server, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    """It would hold the thread that reads, and all logins by token behind it."""
    monkeypatch.setattr(key_set, "READ_S_MAX", 0.3)
    server.answer = answer
    begun_s = time.monotonic()
    with pytest.raises(OSError, match="time"):
        read_url(server.url)
    assert time.monotonic() - begun_s < 4
