"""What a row of the matrix says: a request, who may send it, and how its answer shows that.

The needs are those of Kafka's documentation ("Operations and Resources on Protocols") and of its
`KafkaApis` and `ControllerApis`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.message import Message
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import THE_CLUSTER, ResourceType
from tests.support.wire import api_key_of

HIDDEN = -1_000
"""In place of a code: the answer does not have what the client may not know."""

TOPIC_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
TRANSACTION_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOKEN_DENIED = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED

OWNER = "erin"
"""The user for whom a token is asked."""


REACHED = frozenset(ErrorCode) - {
    TOPIC_DENIED,
    GROUP_DENIED,
    CLUSTER_DENIED,
    TRANSACTION_DENIED,
    TOKEN_DENIED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""For requests of a producer that has not begun: who is allowed gets as far as hearing that, in whatever words."""


class Need(NamedTuple):
    """An operation on the resource of that type that a request names."""

    operation: AclOperation
    kind: ResourceType
    any_name: bool = False
    """True if any resource of the type will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the requests of a row are about. The transactional id has no producer that they know."""

    topic: str
    topic_id: bytes
    group: str
    transactional_id: str
    node: int

    def of(self, kind: ResourceType) -> str:
        """The name of the resource of a type."""
        names: Mapping[ResourceType, str] = {
            ResourceType.TOPIC: self.topic,
            ResourceType.GROUP: self.group,
            ResourceType.TRANSACTIONAL_ID: self.transactional_id,
            ResourceType.CLUSTER: THE_CLUSTER.name,
            ResourceType.USER: f"User:{OWNER}",
        }
        return names[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request. Who has `given` and one of `needs` may send it."""

    name: str
    request: Callable[[Names], Message]
    version: int
    code: Callable[[Any, Names], int]
    """What the answer says of the request, as code."""
    needs: tuple[Need, ...]
    denied: int
    allowed: frozenset[int] = frozenset((ErrorCode.NONE,))
    given: tuple[Need, ...] = ()
    spare: bool = False
    """The resources are not there, unless `prepare` makes them: for what changes or removes them."""
    prepare: str = ""
    """A method of the world, called before each try."""

    @property
    def api_key(self) -> int:
        """Which API it is."""
        names = Names(topic="t", topic_id=bytes(16), group="g", transactional_id="x", node=0)
        return api_key_of(self.request(names))

    @property
    def title(self) -> str:
        """For the test's name."""
        return f"{ApiKey(self.api_key).name.lower()}{self.name and '-'}{self.name}"


T, G, C, X, U = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.USER,
)
Op = AclOperation


def top(answer: Any, _names: Names) -> int:
    """The code at the top of an answer."""
    code: int = answer.error_code
    return code


def first(*path: str) -> Callable[[Any, Names], int]:
    """The first code that is not 0 on the way down: the names of fields, lists by their only element."""

    def look(answer: Any, _names: Names) -> int:
        place = answer
        for name in (*path, ""):
            code: int = getattr(place, "error_code", 0)
            if code or not name:
                return code
            (place,) = getattr(place, name)
        raise AssertionError(path)

    return look


def listed(path: str, name: str, kind: ResourceType) -> Callable[[Any, Names], int]:
    """NONE if the row's resource is in a list of the answer, else HIDDEN."""

    def look(answer: Any, names: Names) -> int:
        assert answer.error_code == ErrorCode.NONE
        found = {getattr(one, name) for one in getattr(answer, path)}
        return ErrorCode.NONE if names.of(kind) in found else HIDDEN

    return look
