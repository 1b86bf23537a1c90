"""ACLs of a cluster without an authorizer: SECURITY_DISABLED, in the shape of each API."""

from __future__ import annotations

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_acls import CreateAclsRequest, CreateAclsRequestAclCreation
from highwater.kafka.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsRequestDeleteAclsFilter,
)
from highwater.kafka.messages.describe_acls import DescribeAclsRequest
from tests.support.wire import RawConnection

_ANY, _TOPIC, _LITERAL, _READ, _ALLOW = 1, 2, 3, 3, 3
_VERSIONS = [1, 2, 3]


@pytest.mark.parametrize("version", _VERSIONS)
def test_describe(connection: RawConnection, version: int) -> None:
    everything = DescribeAclsRequest(_ANY, None, _ANY, None, None, _ANY, _ANY)
    answer = connection.ask(everything, version)
    assert answer.error_code == ErrorCode.SECURITY_DISABLED
    assert answer.error_message == "No Authorizer is configured on the broker"
    assert answer.resources == []


@pytest.mark.parametrize("version", _VERSIONS)
def test_create(connection: RawConnection, version: int) -> None:
    wanted = [
        CreateAclsRequestAclCreation(_TOPIC, name, _LITERAL, "User:a", "*", _READ, _ALLOW)
        for name in ("one", "two")
    ]
    answer = connection.ask(CreateAclsRequest(wanted), version)
    assert [(one.error_code, one.error_message) for one in answer.results] == [
        (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    ] * 2


@pytest.mark.parametrize("version", _VERSIONS)
def test_delete(connection: RawConnection, version: int) -> None:
    everything = DeleteAclsRequestDeleteAclsFilter(_ANY, None, _ANY, None, None, _ANY, _ANY)
    answer = connection.ask(DeleteAclsRequest([everything]), version)
    (result,) = answer.filter_results
    assert result.error_code == ErrorCode.SECURITY_DISABLED
    assert result.error_message == "No Authorizer is configured."
    assert result.matching_acls == []
