"""The name of a client that has shown a certificate (Kafka: `SslPrincipalMapper`, KIP-371).

Rules are tried in order; the first whose pattern matches the whole distinguished name makes the
name of it:

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/        CN=alice,OU=ServiceUsers,O=x   ->  alice
    RULE:^.*CN=(.*?),.*$/$1@example/L            lower case, U for upper case
    DEFAULT                                      the name as it is
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

DEFAULT: Final = "DEFAULT"
RULE_CHARS_MAX: Final = 4096

_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_REFERENCE: Final = re.compile(r"\$(\d)")

_SHORT: Final = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "domainComponent": "DC",
    "userId": "UID",
    "streetAddress": "STREET",
}
_SPECIAL: Final = re.compile(r'([,+"\\<>;])')


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: str
    case: str


class PrincipalRules:
    """The rules of a listener. Never changed."""

    def __init__(self, rules: Sequence[str]) -> None:
        """Raises ValueError for a text that is no rule."""
        self._rules = [None if rule == DEFAULT else _parsed(rule) for rule in rules or (DEFAULT,)]

    def name_of(self, subject: str) -> str | None:
        """The user's name for a distinguished name; None if no rule matches."""
        for rule in self._rules:
            if rule is None:
                return subject
            if rule.pattern.fullmatch(subject):
                made = rule.pattern.sub(rule.replacement, subject, count=1)
                return {"L": made.lower(), "U": made.upper()}.get(rule.case, made)
        return None


def distinguished_name(subject: Iterable[Iterable[tuple[str, str]]]) -> str:
    """A certificate's subject, as `ssl` gives it, in the form of RFC 2253: the most specific part first.

    As Java writes it, but for attributes that neither names by a short name.
    """
    parts = ["+".join(_attribute(name, value) for name, value in rdn) for rdn in subject]
    return ",".join(reversed(parts))


def _attribute(name: str, value: str) -> str:
    escaped = _SPECIAL.sub(r"\\\1", value)
    return f"{_SHORT.get(name, name)}={escaped}"


def _parsed(text: str) -> _Rule:
    found = _RULE.fullmatch(text)
    if found is None or len(text) > RULE_CHARS_MAX:
        raise ValueError(f"not a rule for principals: {text[:RULE_CHARS_MAX]!r}")
    pattern, replacement, case = found.groups()
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{text!r}: {error}") from error
    # Java writes references as $1, and takes all else as it is.
    template = _REFERENCE.sub(r"\\g<\1>", replacement.replace("\\", r"\\"))
    if any(int(number) > compiled.groups for number in _REFERENCE.findall(replacement)):
        raise ValueError(f"{text!r} names a group that the pattern does not have")
    return _Rule(compiled, template, case)
