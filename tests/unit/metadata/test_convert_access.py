"""Single values through protobuf and back; `test_convert` has whole images."""

import pytest

from highwater.metadata.convert_access import (
    acl_from_pb,
    acl_to_pb,
    entity_from_pb,
    entity_to_pb,
    scram_credential_from_pb,
    scram_credential_to_pb,
)
from highwater.model.ids import InstanceId
from highwater.model.scram import ScramCredential
from tests.support.acls import acl


def test_acls() -> None:
    entry = acl("ü/%", 2, 2, pattern=4, principal="User:*", host="::1", instance=InstanceId("i"))
    assert acl_from_pb(acl_to_pb(entry)) == entry


def test_credentials() -> None:
    credential = ScramCredential(
        iterations=5_000, salt=b"\0s", stored_key=b"\xffk", server_key=b"\xfev"
    )
    assert scram_credential_from_pb(scram_credential_to_pb(credential)) == credential


@pytest.mark.parametrize("name", ["app", "", None])
def test_the_default_of_a_type_has_no_name(name: str | None) -> None:
    entity = (("client-id", name), ("user", "u"))
    assert entity_from_pb(entity_to_pb(entity)) == entity
