"""One error is told, however many groups are around it."""

from __future__ import annotations

from highwater.controller.active.first_error import first_error


def test_the_first_error_of_groups_in_groups() -> None:
    first = ValueError("first")
    group = ExceptionGroup("tasks", [ExceptionGroup("tasks", [first]), TypeError("second")])
    assert first_error(group) is first
