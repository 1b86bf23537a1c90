"""Kafka's rules for topic names (Topic.validate)."""

import re
from typing import Final

NAME_CHARS_MAX: Final = 249
"""With it `<topic>-<partition>` plus the suffix of a deleted directory fits a file name."""

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_topic_name(name: str) -> str | None:
    """Why the name is illegal, or None."""
    if not name:
        return "topic name is empty"
    if name in {".", ".."}:
        return "topic name cannot be '.' or '..'"
    if len(name) > NAME_CHARS_MAX:
        return f"topic name is longer than {NAME_CHARS_MAX} characters"
    if _LEGAL.fullmatch(name) is None:
        return "topic name holds a character other than ASCII letters, digits, '.', '_' and '-'"
    return None
