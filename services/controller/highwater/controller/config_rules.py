"""The controller's config rules until a topic's config table says more: names must look sane."""

import re
from typing import Final

_NAME: Final = re.compile(r"[a-z][a-z0-9._-]{0,248}")
VALUE_CHARS_MAX: Final = 10_000


class PlainConfigRules:
    """Accepts every well-formed name with a value of a sensible length."""

    def topic_error(self, name: str, value: str) -> str | None:
        """See ConfigRules."""
        return _error(name, value)

    def node_error(self, name: str, value: str) -> str | None:
        """See ConfigRules."""
        return _error(name, value)


def _error(name: str, value: str) -> str | None:
    if _NAME.fullmatch(name) is None:
        return f"'{name}' is not a config name"
    if len(value) > VALUE_CHARS_MAX:
        return f"the value of {name} is longer than {VALUE_CHARS_MAX} characters"
    return None
