import pytest

from highwater.gateway.handling.delegation_tokens import why_none
from highwater.kafka.api_keys import ApiKey
from highwater.kafka.error_codes import ErrorCode
from highwater.model.authorization import USER, Principal
from tests.unit.gateway.handlers.fakes import Client, FakeBackend


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("alice", ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        ("ANONYMOUS", ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
    ],
)
def test_who_has_shown_nothing_may_not_even_ask(name, code):
    context = Client(FakeBackend()).context(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3)
    requester = context.client.requester
    context.client.requester = requester._replace(principal=Principal(USER, name))
    assert why_none(context) is code
