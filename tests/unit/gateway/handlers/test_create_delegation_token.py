import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_delegation_token import CreateDelegationTokenRequest
from highwater.model.authorization import USER, Principal
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
