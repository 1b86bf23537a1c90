"""The error names the active controller, if it is known."""

from __future__ import annotations

from highwater.controller.image.not_active import NotActiveError
from highwater.model.errors import NotControllerError


def test_the_error_names_the_active_controller() -> None:
    error = NotActiveError("c2:9400")
    assert isinstance(error, NotControllerError)
    assert error.active_address == "c2:9400"
    assert NotActiveError().active_address == ""
