import inspect

import pytest

from highwater.model import errors
from highwater.model.errors import Fault, HighwaterError, UsageError

ALL = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, HighwaterError)
]


def test_reasons_are_unique_constants():
    reasons = [error.reason for error in ALL]
    assert len(set(reasons)) == len(reasons)
    assert all(reason == reason.upper() for reason in reasons)


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_fault_retriable_and_fenced_agree(error):
    if error.fenced:
        assert not error.retriable
    if error.retriable:
        assert error.fault is Fault.WORLD
    assert issubclass(error, UsageError) == (error.fault is Fault.OPERATOR)
