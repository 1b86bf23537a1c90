"""Names of a gateway's listeners, by Kafka's rule; lower-case here, as case makes no difference.

(Kafka: `ListenerName.normalised`, and the host pattern of `Utils` for what stands before `://`.)
"""

import re
from collections.abc import Iterable
from typing import Final

DEFAULT_LISTENER: Final = "default"
"""The listener that a gateway's own host and port describe; every gateway has it."""

PROTOCOL: Final = "PLAINTEXT"
"""The name of the default listener in Kafka's configs."""

NAME_CHARS_MAX: Final = 64

LISTENERS_MAX: Final = 16
"""Of a gateway, beside the default one: each takes a block of ports, and a place in the image."""

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")
_RESERVED: Final = frozenset((DEFAULT_LISTENER, PROTOCOL.lower()))


def invalid_listener_names(names: Iterable[str]) -> str | None:
    """Why these cannot be the names of a gateway's further listeners, or None."""
    seen: dict[str, str] = {}
    for name in names:
        why = invalid_listener_name(name)
        if why is not None:
            return why
        if name.lower() in seen:
            return f"listener names '{seen[name.lower()]}' and '{name}' do not differ but in case"
        seen[name.lower()] = name
    return f"there are more than {LISTENERS_MAX} listeners" if len(seen) > LISTENERS_MAX else None


def invalid_listener_name(name: str) -> str | None:
    """Why this cannot be the name of a further listener, or None."""
    if not name:
        return "a listener's name is empty"
    if len(name) > NAME_CHARS_MAX:
        return (
            f"listener name '{name[:NAME_CHARS_MAX]}...' is longer than {NAME_CHARS_MAX} characters"
        )
    if _LEGAL.fullmatch(name) is None:
        return f"listener name '{name}' holds a character other than letters, digits, '.', '_', '-'"
    if name.lower() in _RESERVED:
        return f"listener name '{name}' is reserved for the listener of the gateway's host and port"
    return None
