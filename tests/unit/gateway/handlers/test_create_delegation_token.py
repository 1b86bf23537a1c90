import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenRequestCreatableRenewers,
)
from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import USER, Principal, Resource, ResourceType
from tests.unit.gateway.handlers.fakes import Client, FakeBackend


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("alice", ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        ("ANONYMOUS", ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
    ],
)
async def test_it_is_refused_in_words(version, name, code):
    client = Client(FakeBackend())
    client.info.requester = client.info.requester._replace(principal=Principal(USER, name))
    response = await client.call(CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
    assert response.error_code == code
    assert response.token_id == ""
    assert response.expiry_timestamp_ms == -1
    names = [response.principal_name, response.token_requester_principal_name]
    assert names == [name, name if version >= 3 else ""]


ALICE = Principal(USER, "alice")
OF_BOB = (AclOperation.CREATE_TOKENS, Resource(ResourceType.USER, "User:bob"))


async def ask(backend, owner, *renewers, requester=ALICE):
    client = Client(backend)
    client.info.requester = client.info.requester._replace(principal=requester)
    made = [CreateDelegationTokenRequestCreatableRenewers(*one) for one in renewers]
    return await client.call(CreateDelegationTokenRequest(USER, owner, made, -1), 3)


@pytest.mark.parametrize(
    ("owner", "code"),
    [
        ("bob", ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        ("carol", ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        ("alice", ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
    ],
)
async def test_for_another_owner_it_needs_create_tokens_on_that_user(owner, code):
    backend = FakeBackend()
    backend.deny(OF_BOB, (AclOperation.CREATE_TOKENS, Resource(ResourceType.USER, "User:alice")))
    response = await ask(backend, owner)
    assert response.error_code == code
    assert (response.principal_type, response.principal_name) == (USER, owner)
    assert response.token_requester_principal_name == "alice"


async def test_clients_without_a_login_hear_only_that_they_may_not_ask():
    backend = FakeBackend()
    backend.deny(OF_BOB)
    response = await ask(backend, "bob", ("Group", "g"), requester=Principal(USER, "ANONYMOUS"))
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


async def test_renewers_are_users():
    response = await ask(FakeBackend(), "bob", (USER, "carol"), ("Group", "g"))
    assert response.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
    response = await ask(FakeBackend(), "bob", (USER, "carol"))
    assert response.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
