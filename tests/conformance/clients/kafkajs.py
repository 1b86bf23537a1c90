"""KafkaJS, through the small driver in `tools/kafkajs`; npm installs its packages on first use."""

from __future__ import annotations

import base64
import fcntl
import json
import shutil
import subprocess
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.conformance.client import BEGINNING, CLIENT_TIMEOUT_S, Member
from tests.conformance.clients.line_process import LineProcess, run_program
from tests.conformance.messages import EVERYTHING, Message, Stored

_DIRECTORY = Path(__file__).resolve().parents[3] / "tools" / "kafkajs"
_INSTALL_TIMEOUT_S = 300


class KafkaJsClient:
    """Implements `tests.conformance.client.Client`."""

    name = "kafkajs"
    writes = EVERYTHING
    picks_partition = True

    def produce(
        self,
        bootstrap: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int | None = None,
        codec: str = "none",
        acks: str = "all",
    ) -> None:
        request = {
            "topic": topic,
            "codec": codec,
            "acks": -1 if acks == "all" else int(acks),
            "messages": [_to_json(message, partition) for message in messages],
        }
        kafkajs("produce", bootstrap, request)

    def consume(
        self, bootstrap: str, topic: str, *, partitions: int, count: int, start: int = BEGINNING
    ) -> list[Stored]:
        request = {"topic": topic, "count": count, "start": start}
        lines = kafkajs("consume", bootstrap, request).splitlines()
        return [_stored(json.loads(line)) for line in lines]

    def join(self, bootstrap: str, group: str, topic: str) -> Member:
        return _Member(bootstrap, group, topic)


@cache
def driver() -> str:
    """The path of the driver, with its packages installed. Raises RuntimeError without npm."""
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError("npm is not on the path: apt-get install nodejs npm")
    with (_DIRECTORY / ".install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = _DIRECTORY / "node_modules" / ".stamp"
        wanted = (_DIRECTORY / "package-lock.json").read_text()
        if not stamp.exists() or stamp.read_text() != wanted:
            command = [npm, "ci", "--prefix", str(_DIRECTORY), "--no-audit", "--no-fund"]
            subprocess.run(command, check=True, capture_output=True, timeout=_INSTALL_TIMEOUT_S)
            stamp.write_text(wanted)
    return str(_DIRECTORY / "driver.mjs")


def kafkajs(command: str, bootstrap: str, request: dict[str, Any]) -> str:
    """Runs one command of the driver and returns its output; see `run_program`."""
    return run_program(
        ["node", driver(), command, bootstrap, "-"], stdin=json.dumps(request).encode()
    ).decode()


def _to_json(message: Message, partition: int | None) -> dict[str, Any]:
    headers: dict[str, list[str | None]] = {}
    for name, value in message.headers:
        headers.setdefault(name, []).append(_base64(value))
    result: dict[str, Any] = {
        "key": _base64(message.key),
        "value": _base64(message.value),
        "headers": headers,
    }
    if partition is not None:
        result["partition"] = partition
    if message.timestamp_ms is not None:
        result["timestamp"] = str(message.timestamp_ms)
    return result


def _stored(record: dict[str, Any]) -> Stored:
    return Stored(
        partition=record["partition"],
        offset=int(record["offset"]),
        message=Message(
            key=_from_base64(record["key"]),
            value=_from_base64(record["value"]),
            headers=tuple((name, _from_base64(value)) for name, value in record["headers"]),
            timestamp_ms=int(record["timestamp"]),
        ),
    )


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _from_base64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class _Member:
    """Implements `tests.conformance.client.Member` with the driver's `join` command."""

    commits_by_itself = False

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._received: list[Stored] = []
        self._assigned: frozenset[int] = frozenset()
        self._committed = threading.Event()
        request = json.dumps({"group": group, "topic": topic})
        self._process = LineProcess(
            ["node", driver(), "join", bootstrap, request], on_line=self._on_line
        )

    def assigned(self) -> frozenset[int]:
        self._process.check()
        return self._assigned

    def received(self) -> list[Stored]:
        self._process.check()
        return list(self._received)

    def commit(self) -> None:
        self._committed.clear()
        self._process.write_line("commit")
        if not self._committed.wait(CLIENT_TIMEOUT_S):
            self._process.check()
            raise TimeoutError("the commit did not return")

    def close(self) -> None:
        self._process.close()

    def _on_line(self, line: str) -> None:
        event = json.loads(line)
        if event["event"] == "assigned":
            self._assigned = frozenset(event["partitions"])
        elif event["event"] == "record":
            self._received.append(_stored(event))
        elif event["event"] == "committed":
            self._committed.set()
        else:
            raise ValueError(f"unknown event {event}")
