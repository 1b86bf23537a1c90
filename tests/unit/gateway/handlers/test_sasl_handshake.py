import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.sasl_handshake import SaslHandshakeRequest
from tests.unit.gateway.handlers.fakes import Client, FakeBackend


class Login:
    offered = ("A", "B")

    def __init__(self, code):
        self.code = code
        self.asked = []

    def handshake(self, mechanism):
        self.asked.append(mechanism)
        return self.code


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.UNSUPPORTED_SASL_MECHANISM])
async def test_the_login_answers_and_all_mechanisms_are_named(code):
    client = Client(FakeBackend())
    login = client.info.login = Login(code)
    response = await client.call(SaslHandshakeRequest("A"), 1)
    assert (response.error_code, response.mechanisms) == (code, ["A", "B"])
    assert login.asked == ["A"]


async def test_a_listener_without_logins():
    response = await Client(FakeBackend()).call(SaslHandshakeRequest("PLAIN"), 1)
    assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
