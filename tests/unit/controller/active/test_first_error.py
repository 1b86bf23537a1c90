"""Reports one error, however many exception groups contain it."""

from __future__ import annotations

from highwater.controller.active.first_error import first_error


def test_the_first_error_of_nested_groups() -> None:
    first = ValueError("first")
    group = ExceptionGroup("tasks", [ExceptionGroup("tasks", [first]), TypeError("second")])
    assert first_error(group) is first
