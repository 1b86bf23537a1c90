"""Clients of other languages, each through a small driver: a program that takes JSON, in `tools`.

All drivers have the same commands and the same JSON; `tools/goclients/driver` describes it.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.conformance.client import BEGINNING, CLIENT_TIMEOUT_S, Member
from tests.conformance.clients.line_process import LineProcess, run_program
from tests.conformance.messages import EVERYTHING, Message, Stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """What `DriverClient.transact` writes together, into one partition."""

    abort: bool
    messages: Sequence[Message]
    partition: int


class DriverClient:
    """Implements `tests.conformance.client.Client` with a driver."""

    picks_partition = True

    def __init__(
        self,
        name: str,
        program: Callable[[], list[str]],
        *,
        writes: frozenset[str] = EVERYTHING,
        security: Mapping[str, Any] | None = None,
        **options: str,
    ) -> None:
        """`program` makes the driver ready and returns how to start it. `options` go with `join`.

        `security` goes with every request, as `tools/goclients/driver/connection.go` reads it.
        """
        self.name = name
        self.writes = writes
        self._program = program
        self._common: dict[str, Any] = {} if security is None else {"security": security}
        self._options = options

    def secured(self, security: Mapping[str, Any]) -> DriverClient:
        """The same one, by TLS or with a login."""
        return DriverClient(
            self.name, self._program, writes=self.writes, security=security, **self._options
        )

    def run(self, command: str, bootstrap: str, request: dict[str, Any]) -> str:
        """Runs one command of the driver and returns its output; see `run_program`."""
        program = [*self._program(), command, bootstrap, "-"]
        text = json.dumps({**request, **self._common})
        return run_program(program, stdin=text.encode()).decode()

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
        self.run("produce", bootstrap, request)

    def consume(
        self, bootstrap: str, topic: str, *, partitions: int, count: int, start: int = BEGINNING
    ) -> list[Stored]:
        request = {"topic": topic, "count": count, "start": start}
        lines = self.run("consume", bootstrap, request).splitlines()
        return [_stored(json.loads(line)) for line in lines]

    def transact(
        self,
        bootstrap: str,
        topic: str,
        transactional_id: str,
        work: Sequence[Transaction],
        *,
        group: str | None = None,
    ) -> list[str]:
        """Carries out the transactions in their order; the outcome of each.

        With a group, drivers that can also commit an offset of it in each.
        """
        request = {"topic": topic, "transactional_id": transactional_id, **self._common}
        if group is not None:
            request["group"] = group
        lines = [
            json.dumps(
                {"abort": one.abort, "messages": [_to_json(m, one.partition) for m in one.messages]}
            )
            for one in work
        ]
        program = [*self._program(), "transact", bootstrap, json.dumps(request)]
        output = run_program(program, stdin="".join(f"{line}\n" for line in lines).encode())
        return [json.loads(line)["outcome"] for line in output.splitlines()]

    def join(self, bootstrap: str, group: str, topic: str) -> Member:
        request = {"group": group, "topic": topic, **self._options, **self._common}
        return _Member([*self._program(), "join", bootstrap, json.dumps(request)])


def _to_json(message: Message, partition: int | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "key": _base64(message.key),
        "value": _base64(message.value),
        "headers": [[name, _base64(value)] for name, value in message.headers],
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

    def __init__(self, program: list[str]) -> None:
        self._received: list[Stored] = []
        self._assigned: frozenset[int] = frozenset()
        self._committed = threading.Event()
        self._process = LineProcess(program, on_line=self._on_line)

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
