"""Callers are told who leads, if that is known."""

from __future__ import annotations

from highwater.controller.image.not_active import NotActiveError
from highwater.model.errors import NotControllerError


def test_it_names_the_controller_that_leads() -> None:
    error = NotActiveError("c2:9400")
    assert isinstance(error, NotControllerError)
    assert error.active_address == "c2:9400"
    assert NotActiveError().active_address == ""
