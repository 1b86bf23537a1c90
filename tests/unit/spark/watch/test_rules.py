from __future__ import annotations

from pathlib import Path

import pytest

from highwater.spark.watch import rules as module
from highwater.spark.watch.minute import Metric
from highwater.spark.watch.rules import Absence, Change, RulesUnusable, Threshold, parse_rules

EXAMPLE = Path(__file__).parents[4] / "docs" / "spark" / "rules.toml"


@pytest.mark.parametrize(
    "text", [(module.__doc__ or "").partition("\n\n")[2], EXAMPLE.read_text(encoding="utf-8")]
)
def test_the_examples(text: str):
    assert parse_rules(text) == (
        Threshold(
            name="errors", metric=Metric.ERROR_RATE, above=0.05, for_minutes=3, clear_minutes=2,
            least_requests=20,
        ),
        Change(name="traffic", metric=Metric.REQUESTS, above=3.0, below=0.2, least_minutes=10),
        Absence(name="silence", minutes=10),
    )  # fmt: skip


def test_no_rules():
    assert parse_rules("") == ()


def rule(**values: object) -> str:
    shown = {
        key: f'"{value}"' if isinstance(value, str) else value for key, value in values.items()
    }
    return "[[rule]]\n" + "".join(f"{key} = {value}\n" for key, value in shown.items())


GOOD = {"name": "r", "kind": "threshold", "metric": "requests", "above": 1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[rule", "not TOML"),
        ("x = 1", "only .* not 'x'"),
        ("rule = 1", "rules are tables"),
        ("rule = [1]", "rules are tables"),
        (rule(kind="absence", minutes=1), "rule 1 has no name"),
        (rule(**GOOD | {"kind": "odd"}), "rule 'r': kind is one of .* not 'odd'"),
        (rule(**GOOD | {"minutes": 1}), "kind threshold has no 'minutes'"),
        (rule(name="r", kind="absence"), "kind absence needs 'minutes'"),
        (rule(name="r", kind="threshold", metric="requests"), "needs 'above' or 'below'"),
        (rule(**GOOD | {"metric": "speed"}), "no metric 'speed'"),
        (rule(**GOOD | {"above": "1"}), "above is a number"),
        (rule(**GOOD | {"for_minutes": 0}), "for_minutes is 1 to 60, not 0"),
        (rule(**GOOD | {"for_minutes": 61}), "for_minutes is 1 to 60, not 61"),
        (rule(**GOOD) + rule(**GOOD), "two rules are called 'r'"),
    ],
)
def test_what_is_wrong_is_told(text: str, told: str):
    with pytest.raises(RulesUnusable, match=told):
        parse_rules(text)


def test_too_many_rules():
    text = "".join(rule(**GOOD | {"name": f"r{number}"}) for number in range(1001))
    with pytest.raises(RulesUnusable, match="1001 rules; 1000 at most"):
        parse_rules(text)
