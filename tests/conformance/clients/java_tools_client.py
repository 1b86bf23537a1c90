"""Kafka's own console producer and consumer, and its verifiable consumer as a group member."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.conformance.client import BEGINNING, CLIENT_TIMEOUT_S, Member
from tests.conformance.clients.line_process import LineProcess
from tests.conformance.messages import Message, Stored
from tests.conformance.topics import unique_name
from tests.support.java_tools import (
    CONSOLE_CONSUMER,
    CONSOLE_PRODUCER,
    CONSUMER_GROUPS,
    VERIFIABLE_CONSUMER,
    java_command,
    java_tool,
)

# Characters that no message of the tests contains.
_FIELD = "\x1f"
_NAME = "\x1e"
_NEXT = "\x1d"
_NULL = "\x1c"
_NO_HEADERS = "NO_HEADERS"


class JavaToolsClient:
    """Implements `tests.conformance.client.Client`; keys and values are lines of text."""

    name = "java"
    writes = frozenset({"headers", "nulls"})
    picks_partition = False

    def __init__(self, group_protocol: str = "classic") -> None:
        """`group_protocol` is that of `join`: classic or consumer (KIP-848)."""
        self._group_protocol = group_protocol

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
        assert partition is None, "the console producer cannot choose"
        java_tool(
            CONSOLE_PRODUCER,
            *("--bootstrap-server", bootstrap, "--topic", topic),
            *("--compression-codec", codec),
            *("--command-property", f"acks={acks}"),
            *("--command-property", f"enable.idempotence={str(acks == 'all').lower()}"),
            *_properties(
                "--reader-property",
                **{
                    "parse.key": "true",
                    "parse.headers": "true",
                    "key.separator": _FIELD,
                    "headers.delimiter": _FIELD,
                    "headers.separator": _NEXT,
                    "headers.key.separator": _NAME,
                    "null.marker": _NULL,
                },
            ),
            stdin="".join(_line(message) + "\n" for message in messages),
            timeout_s=CLIENT_TIMEOUT_S,
        )

    def consume(
        self, bootstrap: str, topic: str, *, partitions: int, count: int, start: int = BEGINNING
    ) -> list[Stored]:
        group = unique_name("console")
        if start != BEGINNING:
            self._start_group_at(bootstrap, group, topic, start)
        output = java_tool(
            CONSOLE_CONSUMER,
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
            *("--from-beginning", "--max-messages", str(count)),
            *("--timeout-ms", str(int(CLIENT_TIMEOUT_S * 500))),
            *_properties(
                "--formatter-property",
                **{
                    "print.timestamp": "true",
                    "print.partition": "true",
                    "print.offset": "true",
                    "print.headers": "true",
                    "print.key": "true",
                    "print.value": "true",
                    "key.separator": _FIELD,
                    "headers.separator": _NEXT,
                    "null.literal": _NULL,
                },
            ),
            timeout_s=CLIENT_TIMEOUT_S,
        ).stdout
        # splitlines() would also split at the separators.
        stored = [_stored(line) for line in output.split("\n") if line]
        assert len(stored) == count, f"{len(stored)} records instead of {count}"
        return stored

    def join(self, bootstrap: str, group: str, topic: str) -> Member:
        return _Member(bootstrap, group, topic, self._group_protocol)

    def _start_group_at(self, bootstrap: str, group: str, topic: str, start_ms: int) -> None:
        seconds, milliseconds = divmod(start_ms, 1000)
        moment = f"{_utc(seconds)}.{milliseconds:03d}"
        java_tool(
            CONSUMER_GROUPS,
            *("--bootstrap-server", bootstrap, "--group", group, "--topic", topic),
            *("--reset-offsets", "--to-datetime", moment, "--execute"),
            timeout_s=CLIENT_TIMEOUT_S,
        )


def _utc(seconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _properties(option: str, **values: str) -> list[str]:
    arguments = []
    for name, value in values.items():
        arguments += [option, f"{name}={value}"]
    return arguments


def _line(message: Message) -> str:
    headers = _NEXT.join(f"{name}{_NAME}{_text(value)}" for name, value in message.headers)
    # The reader knows an empty list of headers only as the null marker.
    return _FIELD.join([headers or _NULL, _text(message.key), _text(message.value)])


def _text(value: bytes | None) -> str:
    return _NULL if value is None else value.decode()


def _stored(line: str) -> Stored:
    timestamp, partition, offset, headers, key, value = line.split(_FIELD)
    return Stored(
        partition=int(partition.removeprefix("Partition:")),
        offset=int(offset.removeprefix("Offset:")),
        message=Message(
            key=_bytes(key),
            value=_bytes(value),
            headers=tuple(_header(text) for text in _header_texts(headers)),
            timestamp_ms=int(timestamp.removeprefix("CreateTime:")),
        ),
    )


def _header_texts(headers: str) -> list[str]:
    return [] if headers == _NO_HEADERS else headers.split(_NEXT)


def _header(text: str) -> tuple[str, bytes | None]:
    name, _, value = text.partition(":")
    return name, _bytes(value)


def _bytes(text: str) -> bytes | None:
    return None if text == _NULL else text.encode()


class _Member:
    """Implements `tests.conformance.client.Member` with Kafka's VerifiableConsumer."""

    commits_by_itself = True

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        self._received: list[Stored] = []
        self._assigned: frozenset[int] = frozenset()
        # In the consumer protocol the session timeout is the broker's.
        timeout = ("--session-timeout", "10000") if protocol == "classic" else ()
        command = java_command(
            VERIFIABLE_CONSUMER,
            *("--bootstrap-server", bootstrap, "--group-id", group, "--topic", topic),
            *("--group-protocol", protocol, *timeout),
            *("--reset-policy", "earliest", "--verbose"),
        )
        self._process = LineProcess(command, on_line=self._on_line)

    def assigned(self) -> frozenset[int]:
        self._process.check()
        return self._assigned

    def received(self) -> list[Stored]:
        self._process.check()
        return list(self._received)

    def commit(self) -> None:
        """Nothing to do: the tool commits after each batch that it polled."""

    def close(self) -> None:
        self._process.close()

    def _on_line(self, line: str) -> None:
        event: dict[str, Any] = json.loads(line)
        match event["name"]:
            case "partitions_assigned":
                self._assigned |= {part["partition"] for part in event["partitions"]}
            case "partitions_revoked":
                self._assigned -= {part["partition"] for part in event["partitions"]}
            case "record_data":
                self._received.append(
                    Stored(
                        partition=event["partition"],
                        offset=event["offset"],
                        message=Message(
                            key=_json_bytes(event["key"]), value=_json_bytes(event["value"])
                        ),
                    )
                )
            case _:
                pass


def _json_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
