"""AlterUserScramCredentials and DescribeUserScramCredentials on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
)
from highwater.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUserName,
)
from tests.conformance.topics import unique_name
from tests.support.process import wait_until
from tests.support.wire import RawConnection

_SHA_256, _SHA_512 = 1, 2
_LATE_S = 10


@pytest.fixture
def user(connection: RawConnection) -> Iterator[str]:
    """A user without credentials; those that a test leaves are removed."""
    name = unique_name("user")
    yield name
    for mechanism in (_SHA_256, _SHA_512):
        _alter(connection, removed=[(name, mechanism)])


def _alter(
    connection: RawConnection,
    *new: tuple[str, int, int],
    removed: list[tuple[str, int]] | None = None,
) -> dict[str, tuple[int, str | None]]:
    """Adds (user, mechanism, iterations) and removes (user, mechanism)."""
    request = AlterUserScramCredentialsRequest(
        [AlterUserScramCredentialsRequestScramCredentialDeletion(*one) for one in removed or []],
        [
            AlterUserScramCredentialsRequestScramCredentialUpsertion(*one, b"salt", b"password")
            for one in new
        ],
    )
    results = connection.ask(request, 0).results
    assert len({one.user for one in results}) == len(results)
    return {one.user: (one.error_code, one.error_message) for one in results}


def _describe(connection: RawConnection, *users: str) -> Any:
    asked = [DescribeUserScramCredentialsRequestUserName(user) for user in users] or None
    answer = connection.ask(DescribeUserScramCredentialsRequest(asked), 0)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
    return answer.results


def _known(connection: RawConnection, user: str) -> dict[int, int] | None:
    """Iterations by mechanism; None if the user is not known."""
    (result,) = _describe(connection, user)
    if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
        why = f"Attempt to describe a user credential that does not exist: {user}"
        assert (result.error_message, result.credential_infos) == (why, [])
        return None
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, "")
    return {one.mechanism: one.iterations for one in result.credential_infos}


def _wait(connection: RawConnection, user: str, known: dict[int, int] | None) -> None:
    wait_until(lambda: _known(connection, user) == known, timeout_s=_LATE_S, what=str(known))


def test_add_describe_and_remove(connection: RawConnection, user: str) -> None:
    assert _known(connection, user) is None
    assert _alter(connection, (user, _SHA_256, 4_096)) == {user: (0, None)}
    _wait(connection, user, {_SHA_256: 4_096})
    assert _alter(connection, (user, _SHA_512, 16_384)) == {user: (0, None)}
    _wait(connection, user, {_SHA_256: 4_096, _SHA_512: 16_384})
    assert _alter(connection, (user, _SHA_256, 8_192)) == {user: (0, None)}
    _wait(connection, user, {_SHA_256: 8_192, _SHA_512: 16_384})
    assert user in {one.user for one in _describe(connection)}
    assert _alter(connection, removed=[(user, _SHA_256)]) == {user: (0, None)}
    _wait(connection, user, {_SHA_512: 16_384})
    assert _alter(connection, removed=[(user, _SHA_512)]) == {user: (0, None)}
    _wait(connection, user, None)


@pytest.mark.parametrize(
    ("mechanism", "iterations", "code", "why"),
    [
        (_SHA_256, 4_095, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (_SHA_512, 4_095, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (_SHA_256, 16_385, ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (0, 4_096, ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (3, 4_096, ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
    ],
)
def test_refused_credentials(
    connection: RawConnection, mechanism: int, iterations: int, code: ErrorCode, why: str
) -> None:
    user = unique_name("refused")
    assert _alter(connection, (user, mechanism, iterations)) == {user: (code, why)}
    assert _known(connection, user) is None


def test_no_user_name(connection: RawConnection) -> None:
    refused = {"": (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")}
    assert _alter(connection, ("", _SHA_256, 4_096)) == refused
    assert _alter(connection, removed=[("", _SHA_256)]) == refused


def test_what_is_not_there_cannot_be_removed(connection: RawConnection, user: str) -> None:
    why = "Attempt to delete a user credential that does not exist"
    missing = {user: (ErrorCode.RESOURCE_NOT_FOUND, why)}
    assert _alter(connection, removed=[(user, _SHA_256)]) == missing
    _alter(connection, (user, _SHA_256, 4_096))
    _wait(connection, user, {_SHA_256: 4_096})
    assert _alter(connection, removed=[(user, _SHA_512)]) == missing


def test_a_user_who_is_named_twice(connection: RawConnection, user: str) -> None:
    _alter(connection, (user, _SHA_256, 4_096))
    _wait(connection, user, {_SHA_256: 4_096})
    why = "A user credential cannot be altered twice in the same request"
    twice = {user: (ErrorCode.DUPLICATE_RESOURCE, why)}
    assert _alter(connection, (user, _SHA_256, 5_000), (user, _SHA_512, 5_000)) == twice
    assert _alter(connection, (user, _SHA_512, 5_000), removed=[(user, _SHA_256)]) == twice
    assert _known(connection, user) == {_SHA_256: 4_096}
    (result,) = _describe(connection, user, user)
    assert result.error_code == ErrorCode.DUPLICATE_RESOURCE
    why = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    assert (result.error_message, result.credential_infos) == (why, [])


def test_one_refused_user_leaves_the_others(connection: RawConnection, user: str) -> None:
    bad = unique_name("bad")
    outcomes = _alter(connection, (bad, _SHA_256, 1), (user, _SHA_256, 4_096))
    assert outcomes[user] == (0, None)
    assert outcomes[bad][0] == ErrorCode.UNACCEPTABLE_CREDENTIAL
    _wait(connection, user, {_SHA_256: 4_096})
