"""Names: the sources of a mirror, copies of topics, transactional ids, and the offsets topic of each source."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from highwater.model.errors import UsageError

OFFSETS_TOPICS: Final = r"highwater-mirror\.[A-Za-z0-9_-]{1,64}\.offsets"
"""An expression for the names of the offsets topics of all mirrors."""

TOPIC_LENGTH_MAX: Final = 249
"""Of a topic's name, as brokers have it."""

_ALIAS: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Without dots, so that what an id or a name is put together from can be told apart again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A cluster that is copied from; mirrors of one target know it by its alias for ever."""

    alias: str
    bootstrap: str


def parse_sources(words: Sequence[str]) -> tuple[Source, ...]:
    """Returns the sources of `ALIAS=HOST:PORT`. Raises UsageError."""
    found = []
    for word in words:
        alias, sign, bootstrap = word.partition("=")
        if not sign or not bootstrap or _ALIAS.fullmatch(alias) is None:
            raise UsageError(
                f"--source wants ALIAS=HOST:PORT, an alias of letters, digits, - and _, not {word!r}"
            )
        found.append(Source(alias=alias, bootstrap=bootstrap))
    aliases = [each.alias for each in found]
    if not found:
        raise UsageError("name a --source: ALIAS=HOST:PORT")
    if len(set(aliases)) < len(aliases):
        raise UsageError("two sources have one alias")
    return tuple(found)


def offsets_topic(alias: str) -> str:
    """Returns the name of the target's topic that says how far the source is copied."""
    return f"highwater-mirror.{alias}.offsets"


def is_offsets_topic(topic: str) -> bool:
    """Whether the name is that of a mirror's own topic, which is not copied."""
    return re.fullmatch(OFFSETS_TOPICS, topic) is not None


def copy_name(alias: str, topic: str, *, prefixed: bool) -> str:
    """Returns the name of a topic's copy: its own, or `ALIAS.TOPIC`. Raises UsageError."""
    name = f"{alias}.{topic}" if prefixed else topic
    if len(name) > TOPIC_LENGTH_MAX:
        raise UsageError(f"{name} is longer than the {TOPIC_LENGTH_MAX} characters of a topic")
    return name


def transactional_id(alias: str, topic: str, partition: int) -> str:
    """Returns the id under which the copy of one partition is written, whoever writes it."""
    return f"highwater-mirror.{alias}.{topic}.{partition}"
