"""Regular expressions from clients: RE2's syntax, matched in linear time.

They choose topics in subscriptions (KIP-848) and ids in ListTransactions (KIP-1152). Kafka compiles
them with RE2J (`Utils.throwIfRegularExpressionIsInvalid`, `TopicRegexResolver`,
`TransactionStateManager`), this with RE2, from which RE2J was ported: no look-around and no
backreferences. Nested repetitions of more than a thousand are refused, which RE2J takes.
"""

from typing import Final

import re2

PATTERN_CHARS_MAX: Final = 10_000
"""Characters of a pattern: some five hundred names of topics. Kafka has no limit."""

MEMORY_BYTES_MAX: Final = 512 * 1024
"""What a compiled pattern may take, states made while it matches included. To compile a pattern that
just fits takes 7 ms, to match a topic's name with the worst ones found 1 ms, else 3 microseconds."""

_DESCRIPTIONS: Final = {
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
"""RE2's descriptions that are worded otherwise in RE2J."""


class InvalidRegexError(Exception):
    """The pattern is none: INVALID_REGULAR_EXPRESSION. The text is Kafka's, behind the name of the field."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"`{text}` is not a valid regular expression: {why}.")


class Pattern:
    """A compiled pattern. It never changes but for states that it keeps to match faster."""

    __slots__ = ("_compiled", "cost")

    def __init__(self, text: str) -> None:
        """Raises InvalidRegexError."""
        if len(text) > PATTERN_CHARS_MAX:
            shown = f"{text[:100]}..."
            raise InvalidRegexError(shown, f"it has more than {PATTERN_CHARS_MAX} characters")
        options = re2.Options()
        options.max_mem = MEMORY_BYTES_MAX
        options.never_capture = True
        options.log_errors = False
        try:
            self._compiled = re2.compile(text.encode(), options)
        except re2.error as error:
            raise InvalidRegexError(text, _description(error)) from None
        except UnicodeEncodeError:
            raise InvalidRegexError(ascii(text), "invalid UTF-8") from None
        finally:
            # The library's own cache would keep many patterns that nobody uses any more.
            re2.purge()
        self.cost: Final = 1 + self._compiled.programsize // 4
        """What a match may take, beside those of others: the time is at most proportional to it."""

    def matches(self, name: str) -> bool:
        """True if it matches the whole name."""
        return self._compiled.fullmatch(name.encode()) is not None


def compile_pattern(text: str) -> Pattern:
    """The pattern. Raises InvalidRegexError if it is not valid, too long or too large."""
    return Pattern(text)


def _description(error: Exception) -> str:
    """What is wrong in RE2J's words, without the place, as Kafka tells it."""
    what: bytes = error.args[0]
    description = what.decode("utf-8", "replace").partition(": ")[0]
    return _DESCRIPTIONS.get(description, description)
