import pytest

from highwater.gateway.core.login_port import Step
from highwater.gateway.login.scram_server import LoginRefused
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.unit.gateway.handlers.fakes import Client, FakeBackend


class Login:
    mechanism = "PLAIN"
    lifetime_ms = 60_000

    def __init__(self, outcome, *, expects_token=True):
        self.outcome = outcome
        self.expects_token = expects_token
        self.tokens = []

    async def take(self, token):
        self.tokens.append(token)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


async def ask(login, version):
    client = Client(FakeBackend())
    client.info.login = login
    response = await client.call(SaslAuthenticateRequest(b"token"), version)
    return (
        response.error_code,
        response.error_message,
        bytes(response.auth_bytes),
        response.session_lifetime_ms,
    )


@pytest.mark.parametrize(("version", "lifetime_ms"), [(0, 0), (1, 60_000), (2, 60_000)])
async def test_the_last_answer_has_the_lifetime(version, lifetime_ms):
    login = Login(Step(b"verifier", "alice"))
    assert await ask(login, version) == (0, "", b"verifier", lifetime_ms)
    assert login.tokens == [b"token"]


async def test_an_answer_in_the_middle_has_none():
    assert await ask(Login(Step(b"challenge")), 2) == (0, "", b"challenge", 0)


async def test_a_client_does_not_learn_why_it_was_refused():
    code, message, token, _ = await ask(Login(LoginRefused("no user alice")), 2)
    assert code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert message.endswith("invalid credentials with SASL mechanism PLAIN")
    assert token == b""


@pytest.mark.parametrize("login", [None, Login(Step(b""), expects_token=False)])
async def test_out_of_place(login):
    code, message, *_ = await ask(login, 2)
    assert code == ErrorCode.ILLEGAL_SASL_STATE
    assert "SaslHandshake" in message
