"""Messages beside error codes: they quote what clients sent, and a string has a limit in the protocol."""

from typing import Final

MESSAGE_CHARS_MAX: Final = 8_000
"""No more than 32 767 bytes in UTF-8, whatever the characters: clients refuse longer strings."""


def shortened(message: str) -> str:
    """The message, cut if it is too long for a response."""
    if len(message) <= MESSAGE_CHARS_MAX:
        return message
    return f"{message[: MESSAGE_CHARS_MAX - 1]}…"
