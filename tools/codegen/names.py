"""From the schemas' CamelCase to Python's snake_case."""

import keyword
import re

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake_case(name: str) -> str:
    """Turn `TimeoutMs` into `timeout_ms`; a Python keyword gets an underscore behind it."""
    snake = _WORD_START.sub("_", name).lower()
    return f"{snake}_" if keyword.iskeyword(snake) else snake
