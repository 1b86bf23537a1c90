import inspect

from highwater.model import errors
from highwater.model.errors import HighwaterError

ALL = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, HighwaterError)
]


def test_reasons_are_unique_constants():
    reasons = [error.reason for error in ALL]
    assert len(set(reasons)) == len(reasons)
    assert all(reason == reason.upper() for reason in reasons)
