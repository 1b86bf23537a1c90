"""The names by which a request can reach for what an instance has."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """One of everything: what an instance has, or what nobody has."""

    topic: str
    topic_id: bytes
    group: str
    member: str
    """A member's id; `static_member` is its group.instance.id, `generation` its generation or epoch."""
    static_member: str
    generation: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    user: str
    client_id: str
    """With quotas, as the user has."""
    subscription: str
    """Of client metrics."""

    def with_role(self, role: str, other: Names) -> Names:
        """These names, but for those of one role the other's."""
        return replace(self, **{name: getattr(other, name) for name in ROLES[role]})

    def texts(self) -> dict[str, str]:
        """By field, those that are strings."""
        return {name: value for name, value in asdict(self).items() if isinstance(value, str)}

    def with_texts(self, texts: Mapping[str, str]) -> Names:
        """The same with other strings."""
        changed: dict[str, Any] = dict(texts)
        return replace(self, **changed)


ROLES = {
    "topic": ("topic", "topic_id"),
    "group": ("group",),
    "member": ("member", "static_member", "generation"),
    "transaction": ("transactional_id",),
    "producer": ("producer_id", "producer_epoch"),
    "user": ("user", "client_id"),
    "subscription": ("subscription",),
}
"""What belongs to another instance together, where everything else in a request is the client's own."""

assert {name for names in ROLES.values() for name in names} == {
    field.name for field in fields(Names)
}


def nobodys(number: int) -> Names:
    """Names of the same form as an owner's, which exist nowhere."""
    mark = f"of-nobody-{number:05d}"
    return Names(
        topic=f"{mark}-topic",
        topic_id=uuid.uuid4().bytes,
        group=f"{mark}-group",
        member=f"{mark}-member",
        static_member=f"{mark}-static",
        generation=1,
        transactional_id=f"{mark}-transaction",
        producer_id=(1 << 40) + number,
        producer_epoch=0,
        user=f"{mark}-user",
        client_id=f"{mark}-client",
        subscription=f"{mark}-subscription",
    )


def everything() -> Names:
    """Wildcards in place of names."""
    return nobodys(0).with_texts(dict.fromkeys(nobodys(0).texts(), "*"))


def inner_names(names: Names, instance: str, separator: str) -> Names:
    """What the names of an instance might be inside, if something between the two told them apart."""
    texts = names.texts()
    return names.with_texts({name: f"{instance}{separator}{text}" for name, text in texts.items()})


SEPARATORS = ("/", ".", ":", "-", "_", "%2F", "\0", "\n", "\x1f", "\x7f", " ", "\ufeff", "/../")
"""`/` separates keys of the metadata store and chooses a coordinator's partition, `-` ends the name of a
log's directory, `%2F` is a quoted `/`; the others are what programs often take."""
