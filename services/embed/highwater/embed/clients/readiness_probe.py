"""Asks a service whether it is ready.

`python -m highwater.embed.clients.readiness_probe HOST:PORT` is `highwater healthcheck` for container
runtimes, which ask every few seconds: it takes a tenth of the command's time, as it loads so little.
"""

import socket
import sys
from typing import Final

from highwater.model.errors import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_USAGE,
    HighwaterError,
    UnreachableError,
)

ANSWER_BYTES_MAX: Final = 4096
TIMEOUT_S: Final = 3.0

_QUESTION: Final = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def ask(host: str, port: int, timeout_s: float = TIMEOUT_S) -> str:
    """Returns the text of /readyz. Raises HighwaterError if not ready, UnreachableError if down."""
    address = f"{host}:{port}"
    answer = b""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as sock:
            sock.sendall(_QUESTION)
            while len(answer) < ANSWER_BYTES_MAX and (read := sock.recv(ANSWER_BYTES_MAX)):
                answer += read
    except OSError as error:
        raise UnreachableError(f"no answer from {address}: {error}") from None
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(maxsplit=2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1."):
        raise UnreachableError(f"no answer from {address}: that is not HTTP")
    text = body.decode("utf-8", "replace").strip()
    if words[1] != b"200":
        raise HighwaterError(f"{address} is {text or words[1].decode('utf-8', 'replace')}")
    return text


def main(arguments: list[str]) -> int:
    """Prints the service's answer; returns the process's exit code."""
    host, _, port = arguments[0].rpartition(":") if len(arguments) == 1 else ("", "", "")
    if not host or not port.isdecimal():
        print("expected HOST:PORT", file=sys.stderr)  # noqa: T201 - the operator reads it.
        return EXIT_USAGE
    try:
        print(ask(host, int(port)))  # noqa: T201 - likewise.
    except HighwaterError as error:
        print(error, file=sys.stderr)  # noqa: T201 - likewise.
        return EXIT_FAILED
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
