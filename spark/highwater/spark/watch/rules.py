"""Rules of alarms, and the TOML file that they are in.

[[rule]]
name = "errors"
kind = "threshold"        # a metric of one minute
metric = "error_rate"
above = 0.05
for_minutes = 3           # begins after 3 minutes in a row beyond it
clear_minutes = 2         # ends after 2 in a row that are not
least_requests = 20       # minutes with fewer requests say nothing

[[rule]]
name = "traffic"
kind = "change"           # a metric in relation to its mean over the last hour
metric = "requests"
above = 3.0
below = 0.2
least_minutes = 10        # of that hour that have to be known

[[rule]]
name = "silence"
kind = "absence"          # no request at all
minutes = 10
"""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final

from highwater.model.errors import ConfigError
from highwater.spark.watch.minute import Metric

IN_A_ROW_MAX: Final = 60
ABSENCE_MINUTES_MAX: Final = 7 * 24 * 60
RULES_MAX: Final = 1000


class RulesUnusable(ConfigError):
    """The file of rules is not as it has to be."""

    reason = "RULES_UNUSABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Holds in a minute whose metric is above or below a value."""

    name: str
    metric: Metric
    above: float | None = None
    below: float | None = None
    for_minutes: int = 1
    clear_minutes: int = 1
    least_requests: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """As a threshold, of the metric divided by its mean over the minutes of the hour before."""

    name: str
    metric: Metric
    above: float | None = None
    below: float | None = None
    for_minutes: int = 1
    clear_minutes: int = 1
    least_requests: int = 0
    least_minutes: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """Holds when `minutes` in a row have had no request; ends with the next request."""

    name: str
    minutes: int


Rule = Threshold | Change | Absence

_KINDS: Final[Mapping[str, type[Threshold | Change | Absence]]] = {
    "threshold": Threshold,
    "change": Change,
    "absence": Absence,
}

_LIMITS: Final[Mapping[str, tuple[int, int]]] = {
    "for_minutes": (1, IN_A_ROW_MAX),
    "clear_minutes": (1, IN_A_ROW_MAX),
    "least_requests": (0, 1_000_000_000),
    "least_minutes": (1, IN_A_ROW_MAX),
    "minutes": (1, ABSENCE_MINUTES_MAX),
}


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Returns the rules in the order of the file. Raises RulesUnusable, which names the rule."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RulesUnusable(f"not TOML: {error}") from error
    tables = document.pop("rule", [])
    if document:
        raise RulesUnusable(f"only [[rule]] is known, not {next(iter(document))!r}")
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise RulesUnusable("rules are tables: [[rule]]")
    if len(tables) > RULES_MAX:
        raise RulesUnusable(f"{len(tables)} rules; {RULES_MAX} at most")
    rules = tuple(_rule(table, number) for number, table in enumerate(tables, start=1))
    names = [rule.name for rule in rules]
    if doubled := [name for name in names if names.count(name) > 1]:
        raise RulesUnusable(f"two rules are called {doubled[0]!r}")
    return rules


def _rule(table: dict[str, Any], number: int) -> Rule:
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise RulesUnusable(f"rule {number} has no name")
    kind = table.pop("kind", None)
    if kind not in _KINDS:
        raise RulesUnusable(f"rule {name!r}: kind is one of {', '.join(_KINDS)}, not {kind!r}")
    made = _KINDS[kind]
    known = {field.name: field for field in fields(made)}
    for key in table:
        if key not in known:
            raise RulesUnusable(f"rule {name!r}: kind {kind} has no {key!r}")
    for key, field in known.items():
        if field.default is MISSING and key not in table:
            raise RulesUnusable(f"rule {name!r}: kind {kind} needs {key!r}")
    values = {key: _value(name, key, value) for key, value in table.items()}
    rule = made(**values)
    if not isinstance(rule, Absence) and rule.above is None and rule.below is None:
        raise RulesUnusable(f"rule {name!r}: kind {kind} needs 'above' or 'below'")
    return rule


def _value(rule: str, key: str, value: Any) -> Any:
    if key == "metric":
        if value not in set(Metric):
            raise RulesUnusable(f"rule {rule!r}: no metric {value!r}: {', '.join(Metric)}")
        return Metric(value)
    if key in {"above", "below"}:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RulesUnusable(f"rule {rule!r}: {key} is a number, not {value!r}")
        return float(value)
    if key in _LIMITS:
        least, most = _LIMITS[key]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise RulesUnusable(f"rule {rule!r}: {key} is {least} to {most}, not {value!r}")
    return value
