"""Options that are given as NAME=VALUE, several times."""

from highwater.model.errors import UsageError


def name_values(words: list[str], option: str) -> dict[str, str]:
    """Returns the pairs NAME=VALUE of an option. Raises UsageError."""
    pairs = [word.partition("=") for word in words]
    for word, (name, sign, _) in zip(words, pairs, strict=True):
        if not name or not sign:
            raise UsageError(f"{option} wants NAME=VALUE, not {word!r}")
    return {name: value for name, _, value in pairs}
