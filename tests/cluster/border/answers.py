"""Answers as plain values: every string, byte string and id in them, and what is equal of two of them."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from highwater.kafka.message import Message
from tests.cluster.border.names import Names

ID_BYTES = 16
_NEW = "<new>"
_NODE = "<node>"

Broker = tuple[int, str, int]
"""(id, host, port)"""
_MEMBER_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[\w-]{22}(?![\w-])"
)
"""What coordinators put into ids of members: a UUID, or one in base64."""

_WORD = re.compile(r"[\w-]+")
NO_PRODUCER = 0
"""What answers have where there is no producer id; a producer may have it, too."""

VOLATILE = frozenset({"throttle_time_ms", "usable_bytes", "total_bytes"})
"""Fields that two equal requests need not have alike."""
PLACED = frozenset({"leader_id", "replica_nodes", "isr_nodes", "offline_replicas"})
"""Nodes that the cluster chooses, for each topic anew."""
TIMES = re.compile(r".*(timestamp|_time_ms)$")
"""Times of the own transactions and producers."""


def leaves(value: Any, field: str = "") -> Iterator[tuple[str, Any]]:
    """(field, value) of everything that is no struct and no list."""
    if isinstance(value, Message):
        for name in value.__slots__:
            yield from leaves(getattr(value, name), name)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from leaves(one, field)
    else:
        yield field, value


def texts(value: Any) -> list[str]:
    """All strings and byte strings of a message, as text; also bytes that are no text."""
    found = []
    for _, leaf in leaves(value):
        if isinstance(leaf, str):
            found.append(leaf)
        elif isinstance(leaf, bytes | bytearray | memoryview):
            found.append(bytes(leaf).decode("latin-1"))
    return found


def producer_ids(value: Any) -> set[int]:
    """All ids of producers of a message."""
    return {
        leaf
        for field, leaf in leaves(value)
        if isinstance(leaf, int) and field.endswith(("producer_id", "producer_id_filters"))
    }


class Secrets:
    """All that an instance has and that nobody else may learn."""

    def __init__(self, owner: str, owned: Iterable[Names]) -> None:
        """Of the default instance the bare name is none: it is a word of the configs' documentation."""
        names = list(owned)
        bare = "" if owner == "default" else f"|\\b{owner}\\b"
        self._texts = re.compile(
            f"of-{owner}-[0-9]+-[a-z]+|record of {owner}|__instance_\\w+{bare}"
        )
        self._ids = {form for one in names for form in _forms_of_id(one.topic_id)}
        self._members = {one.member for one in names}
        self._producers = {one.producer_id for one in names}

    def told(self, answer: Any, known: Known) -> set[object]:
        """Which of them an answer has, without those that the client knew."""
        found: set[str] = set()
        for text in texts(answer):
            if text in known.texts:
                continue  # Repeated as a whole: a member's id, say, which has another name in it.
            found |= {match.group() for match in self._texts.finditer(text)}
            found |= {secret for secret in (*self._ids, *self._members) if secret in text}
        producers = producer_ids(answer) & self._producers
        return {*(found - known.texts), *(producers - known.producers)}


class Known:
    """What the clients of one instance have named in requests."""

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self.producers: set[int] = {NO_PRODUCER}

    def learn(self, request: Any) -> None:
        """All that it has."""
        for text in texts(request):
            self.texts |= {text, *_WORD.findall(text)}
        self.producers |= producer_ids(request)


def _forms_of_id(topic_id: bytes) -> tuple[str, ...]:
    """As bytes, and as it may stand in texts: Kafka's, and ours."""
    in_base64 = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    return topic_id.decode("latin-1"), in_base64, topic_id.hex()


class Renaming:
    """Replaces names by what they are, so that answers about different names can be compared."""

    def __init__(self, *named: Names, brokers: Collection[Broker] = ()) -> None:
        """`brokers` are those that the client may know: which of them has a group follows from its name."""
        self._brokers = brokers
        self._texts: dict[str, str] = {}
        self._numbers = {one.producer_id for one in named}
        for one in named:
            for field, text in one.texts().items():
                self._texts[text] = f"<{field}>"
            for form in _forms_of_id(one.topic_id):
                self._texts[form] = "<topic_id>"
        for removed in ("", "*"):
            self._texts.pop(removed, None)
        self._longest_first = sorted(self._texts, key=len, reverse=True)

    def plain(self, value: Any, field: str = "") -> Any:
        """The value as dicts, sorted lists and texts; ids that nobody named are all alike."""
        if isinstance(value, Message):
            told = {
                name: self.plain(getattr(value, name), name)
                for name in value.__slots__
                if name not in VOLATILE and not TIMES.match(name)
            }
            if (told.get("node_id"), told.get("host"), told.get("port")) in self._brokers:
                told |= dict.fromkeys(("node_id", "host", "port"), _NODE)
            return told
        if isinstance(value, list | tuple):
            return sorted((self.plain(one, field) for one in value), key=repr)
        if isinstance(value, bytes | bytearray | memoryview):
            named = self._rename(bytes(value).decode("latin-1"))
            is_id = field.endswith("_id") and len(value) == ID_BYTES
            return _NEW if is_id and any(value) and named != "<topic_id>" else named
        if isinstance(value, str):
            named = self._rename(value)
            return _MEMBER_ID.sub(_NEW, named) if "member" in field or "leader" in field else named
        if field in PLACED:
            return _NODE if value >= 0 else value
        if field.endswith("producer_id") and isinstance(value, int) and value >= 0:
            return "<producer_id>" if value in self._numbers else _NEW
        return value

    def _rename(self, text: str) -> str:
        for name in self._longest_first:
            text = text.replace(name, self._texts[name])
        return text


def differences(one: Any, other: Any, path: str = "") -> Sequence[str]:
    """Where two plain values are not equal; empty if they are."""
    if isinstance(one, Mapping) and isinstance(other, Mapping) and one.keys() == other.keys():
        return [line for key in one for line in differences(one[key], other[key], f"{path}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            line
            for number, pair in enumerate(zip(one, other, strict=True))
            for line in differences(*pair, f"{path}[{number}]")
        ]
    return [] if one == other else [f"{path or 'answer'}: {one!r} != {other!r}"]
