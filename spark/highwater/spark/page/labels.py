"""Names that clients chose, as labels: nothing in them that is not seen, and not longer than their place."""

from typing import Final

LABEL_LENGTH_MAX: Final = 42

UNSEEN: Final = "\N{REPLACEMENT CHARACTER}"
"""Stands for a character that would not be seen."""


def visible(text: str) -> str:
    """Returns the text with `UNSEEN` in place of characters without a shape of their own.

    Control characters have no place in SVG, marks of direction turn round what follows them, and
    halves of surrogate pairs cannot be written.
    """
    return "".join(each if each.isprintable() else UNSEEN for each in text)


def shorten(name: str, length_max: int = LABEL_LENGTH_MAX) -> str:
    """Returns the visible name; a long one is cut in the middle, to show its beginning and its end."""
    name = visible(name)
    if len(name) <= length_max:
        return name
    kept = length_max - 1
    return f"{name[: kept // 3]}…{name[-(kept - kept // 3) :]}"
