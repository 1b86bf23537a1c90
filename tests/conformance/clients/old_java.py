"""Kafka's Java clients 0.9.0.1 and 0.10.2.2, whose messages have formats 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance.client import BEGINNING, Member
from tests.conformance.clients.line_process import LineProcess, run_program
from tests.conformance.messages import Message, Stored
from tests.conformance.topics import unique_name
from tests.support.old_java import VERSIONS, old_client_command
from tests.support.process import wait_until

_NULL = "\\N"
_READ_S = 45


class OldJavaClient:
    """Implements `tests.conformance.client.Client`; keys and values are lines of text."""

    writes = frozenset({"nulls"})
    picks_partition = False

    def __init__(self, version: str) -> None:
        self.name = f"java {VERSIONS[version]}"
        self._version = version

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
        assert partition is None, "the program cannot choose"
        lines = "".join(f"{_text(m.key)}\t{_text(m.value)}\n" for m in messages)
        output = run_program(
            old_client_command(self._version, "produce", bootstrap, topic, codec, acks),
            stdin=lines.encode(),
        )
        assert len(output.splitlines()) == len(messages)

    def consume(
        self, bootstrap: str, topic: str, *, partitions: int, count: int, start: int = BEGINNING
    ) -> list[Stored]:
        assert start == BEGINNING, "these clients begin at offsets"
        member = self.join(bootstrap, unique_name("old"), topic)
        try:
            wait_until(
                lambda: len(member.received()) >= count,
                timeout_s=_READ_S,
                what=f"{count} records of {topic}",
            )
            assert member.assigned() == frozenset(range(partitions))
            return member.received()
        finally:
            member.close()

    def join(self, bootstrap: str, group: str, topic: str) -> Member:
        return _Member(old_client_command(self._version, "consume", bootstrap, topic, group))

    def offsets(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        """The first offset of a partition, and the next one."""
        command = old_client_command(self._version, "offsets", bootstrap, topic, str(partition))
        first, end = run_program(command).split()
        return int(first), int(end)


class _Member:
    """Implements `tests.conformance.client.Member`."""

    commits_by_itself = True

    def __init__(self, command: Sequence[str]) -> None:
        self._received: list[Stored] = []
        self._assigned: frozenset[int] = frozenset()
        self._process = LineProcess(command, on_line=self._on_line)

    def assigned(self) -> frozenset[int]:
        self._process.check()
        return self._assigned

    def received(self) -> list[Stored]:
        self._process.check()
        return list(self._received)

    def commit(self) -> None:
        """Nothing to do: the program commits after each poll."""

    def close(self) -> None:
        self._process.close()

    def _on_line(self, line: str) -> None:
        fields = line.split("\t")
        if fields[0] == "assigned":
            self._assigned = frozenset(int(partition) for partition in fields[1:])
            return
        partition, offset, timestamp, key, value = fields
        message = Message(key=_bytes(key), value=_bytes(value), timestamp_ms=int(timestamp))
        self._received.append(Stored(partition=int(partition), offset=int(offset), message=message))


def _text(value: bytes | None) -> str:
    return _NULL if value is None else value.decode()


def _bytes(text: str) -> bytes | None:
    return None if text == _NULL else text.encode()
