"""Kafka's rules for topic names (`Topic.validate`, `Topic.hasCollisionChars`)."""

import re
from collections.abc import Iterable
from typing import Final

NAME_CHARS_MAX: Final = 249
"""So that `<topic>-<partition>` plus a suffix of a deleted directory fits a file name."""

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_name(name: str) -> str | None:
    """Why the name is not legal, or None."""
    if not name:
        return "topic name is empty"
    if name in (".", ".."):
        return "topic name cannot be '.' or '..'"
    if len(name) > NAME_CHARS_MAX:
        return f"topic name is longer than {NAME_CHARS_MAX} characters"
    if _LEGAL.fullmatch(name) is None:
        return "topic name holds a character other than ASCII letters, digits, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Names with the same key collide: metrics turn '.' into '_'."""
    return name.replace(".", "_")


def colliding(name: str, existing: Iterable[str]) -> str | None:
    """An existing name, other than this one, that collides with it."""
    key = collision_key(name)
    return next(
        (other for other in existing if other != name and collision_key(other) == key), None
    )
