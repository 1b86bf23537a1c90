"""Client metrics subscriptions: which names and values are refused."""

import pytest

from highwater.controller.core.change_client_metrics import (
    MATCH_CHARS_MAX,
    NAME_CHARS_MAX,
    VALUE_CHARS_MAX,
    client_metrics_error,
    name_error,
)
from highwater.kafka.error_codes import ErrorCode

REQUEST, CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG


def test_names() -> None:
    assert name_error("a b/ü") is None
    assert name_error("x" * NAME_CHARS_MAX) is None
    for name in ("", "x" * (NAME_CHARS_MAX + 1)):
        refusal = name_error(name)
        assert refusal is not None
        assert refusal.code == REQUEST


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("interval.ms", "100"),
        ("interval.ms", " 3600000 "),
        ("metrics", ""),
        ("metrics", "*"),
        ("metrics", "org.apache.kafka.producer., org.apache.kafka.consumer."),
        ("metrics", "x" * VALUE_CHARS_MAX),
        ("match", ""),
        ("match", " client_id = app-.* , client_software_version=3\\.[5-9].*"),
        ("match", "client_id=a=b"),
        ("match", "client_id="),
        ("match", "client_id=[[a]"),
    ],
)
def test_valid_values(name: str, value: str) -> None:
    assert client_metrics_error({}, {name: value}) is None


@pytest.mark.parametrize(
    ("name", "value", "code", "why"),
    [
        ("no.such", "1", REQUEST, "Unknown client metrics configuration: no.such"),
        ("interval.ms", "99", REQUEST, "must be between 100 and 3600000"),
        ("interval.ms", "3600001", REQUEST, "must be between 100 and 3600000"),
        ("interval.ms", "soon", CONFIG, "Not a number of type INT"),
        ("interval.ms", "", CONFIG, "Not a number of type INT"),
        ("interval.ms", "9999999999", CONFIG, "Not a number of type INT"),
        ("metrics", "a,b, a", CONFIG, "values must not be duplicated"),
        ("metrics", "a,,b", CONFIG, "values must not be empty"),
        ("metrics", "x" * (VALUE_CHARS_MAX + 1), CONFIG, "too long"),
        ("match", "client_id", CONFIG, "Illegal client matching pattern: client_id"),
        ("match", "client=a", CONFIG, "Illegal client matching pattern: client=a"),
        ("match", "client_id=a,client_id=(", CONFIG, "matching pattern: client_id=("),
        ("match", "client_id=a{99999999999}", CONFIG, "Illegal client matching pattern"),
        ("match", "client_id=a," * 2, CONFIG, "values must not be duplicated"),
        ("match", "client_id=" + "x" * MATCH_CHARS_MAX, CONFIG, "too long"),
    ],
)
def test_refused_values(name: str, value: str, code: ErrorCode, why: str) -> None:
    refusal = client_metrics_error({}, {name: value})
    assert refusal is not None
    assert refusal.code == code
    assert why in refusal.message


def test_a_deeply_nested_pattern_is_refused_or_taken() -> None:
    depth = (MATCH_CHARS_MAX - 20) // 2
    refusal = client_metrics_error({}, {"match": "client_id=" + "(" * depth + ")" * depth})
    assert refusal is None or refusal.code == CONFIG


def test_what_stays_is_not_checked_again() -> None:
    stored = {"match": "client_id=(", "interval.ms": "1"}
    assert client_metrics_error(stored, {**stored, "metrics": "*"}) is None
    assert client_metrics_error(stored, {"match": "client_id=((", "interval.ms": "1"}) is not None
