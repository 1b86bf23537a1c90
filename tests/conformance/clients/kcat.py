"""kcat, which on Debian 12 comes with an old librdkafka, 2.0.2."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from tests.conformance.client import BEGINNING, CLIENT_TIMEOUT_S, Member
from tests.conformance.clients.line_process import LineProcess, run_program
from tests.conformance.messages import ANY_CLIENT, Message, Stored

_KEY_DELIMITER = "\x1f"
_ASSIGNED = re.compile(r"rebalanced \(.*\): (assigned|revoked): (.*)$")
_PARTITION = re.compile(r"\[(\d+)\]")


class KcatClient:
    """Implements `tests.conformance.client.Client`; keys and values are lines of text."""

    name = "kcat"
    writes = ANY_CLIENT
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
        chosen = () if partition is None else ("-p", str(partition))
        lines = [_line(message) for message in messages]
        kcat(
            *("-P", "-b", bootstrap, "-t", topic, "-K", _KEY_DELIMITER, *chosen),
            *("-z", codec, "-X", f"acks={acks}", "-X", "linger.ms=20", "-E"),
            stdin=b"\n".join(lines) + b"\n",
        )

    def consume(
        self, bootstrap: str, topic: str, *, partitions: int, count: int, start: int = BEGINNING
    ) -> list[Stored]:
        where = "beginning" if start == BEGINNING else f"s@{start}"
        output = kcat(
            *("-C", "-b", bootstrap, "-t", topic, "-o", where, "-c", str(count)),
            *("-J", "-u", "-q", "-X", "check.crcs=true"),
        )
        return [stored_from_json(json.loads(line)) for line in output.splitlines()]

    def join(self, bootstrap: str, group: str, topic: str) -> Member:
        return _Member(bootstrap, group, topic)


def kcat(*arguments: str, stdin: bytes = b"", timeout_s: float = CLIENT_TIMEOUT_S) -> bytes:
    """Runs kcat to its end; see `run_program`."""
    return run_program(["kcat", *arguments], stdin=stdin, timeout_s=timeout_s)


def stored_from_json(record: dict[str, Any]) -> Stored:
    """The record of one line of `kcat -J`."""
    names = record.get("headers", [])
    return Stored(
        partition=record["partition"],
        offset=record["offset"],
        message=Message(
            key=_bytes(record["key"]),
            value=_bytes(record["payload"]),
            headers=tuple(
                (names[index], _bytes(names[index + 1])) for index in range(0, len(names), 2)
            ),
            timestamp_ms=record["ts"],
        ),
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _line(message: Message) -> bytes:
    assert message.key is not None
    assert message.value is not None
    return message.key + _KEY_DELIMITER.encode() + message.value


class _Member:
    """Implements `tests.conformance.client.Member` with `kcat -G`."""

    commits_by_itself = True

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._received: list[Stored] = []
        self._assigned: frozenset[int] = frozenset()
        self._process = LineProcess(
            [
                *("kcat", "-b", bootstrap, "-G", group, "-J", "-u"),
                *("-X", "auto.offset.reset=earliest", "-X", "auto.commit.interval.ms=300"),
                *("-X", "session.timeout.ms=10000", "-X", "heartbeat.interval.ms=500"),
                topic,
            ],
            on_line=lambda line: self._received.append(stored_from_json(json.loads(line))),
            on_error_line=self._on_error_line,
        )

    def assigned(self) -> frozenset[int]:
        self._process.check()
        return self._assigned

    def received(self) -> list[Stored]:
        self._process.check()
        return list(self._received)

    def commit(self) -> None:
        """Does nothing: kcat commits every 300 ms and when it ends."""

    def close(self) -> None:
        self._process.close()

    def _on_error_line(self, line: str) -> None:
        if (found := _ASSIGNED.search(line)) is None:
            return
        partitions = frozenset(int(number) for number in _PARTITION.findall(found[2]))
        self._assigned = partitions if found[1] == "assigned" else frozenset()
