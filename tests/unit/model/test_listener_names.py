"""Kafka's rule for names of listeners, which differ in more than case."""

import pytest

from highwater.model.listener_names import (
    LISTENERS_MAX,
    NAME_CHARS_MAX,
    invalid_listener_name,
    invalid_listener_names,
)


@pytest.mark.parametrize("name", ["internal", "EXTERNAL", "a", "a.b_c-9", "x" * NAME_CHARS_MAX])
def test_legal_names(name: str) -> None:
    assert invalid_listener_name(name) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "empty"),
        ("x" * (NAME_CHARS_MAX + 1), "longer than"),
        ("a b", "character"),
        ("a,b", "character"),
        ("a/b", "character"),
        ("é", "character"),
        ("default", "reserved"),
        ("Plaintext", "reserved"),
    ],
)
def test_illegal_names(name: str, why: str) -> None:
    found = invalid_listener_names(["internal", name])
    assert found is not None
    assert why in found


def test_names_of_one_gateway() -> None:
    assert invalid_listener_names([]) is None
    assert invalid_listener_names(["a", "b"]) is None
    assert "'a' and 'A' do not differ but in case" in str(invalid_listener_names(["a", "b", "A"]))
    many = [f"l{number}" for number in range(LISTENERS_MAX + 1)]
    assert invalid_listener_names(many[1:]) is None
    assert "more than 16 listeners" in str(invalid_listener_names(many))
