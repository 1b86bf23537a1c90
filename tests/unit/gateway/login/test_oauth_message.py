import pytest

from highwater.gateway.login.oauth_message import BearerMessage, parse
from highwater.gateway.login.scram_server import LoginRefused


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (b"n,,\x01auth=Bearer a.b.c\x01\x01", BearerMessage("a.b.c", "")),
        (b"n,a=alice,\x01auth=Bearer a.b.c\x01\x01", BearerMessage("a.b.c", "alice")),
        (
            b"n,,\x01host=x\x01auth=bearer a-_~+/.c==\x01port=1\x01\x01",
            BearerMessage("a-_~+/.c==", ""),
        ),
        (b"n,a=a=2Cb=3Dc,\x01auth=Bearer t\x01\x01", BearerMessage("t", "a,b=c")),
    ],
)
def test_messages(message, found):
    assert parse(message) == found


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Bearer t\x01\x01more",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer t t\x01\x01",
        b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
        b"n,,\x01host=x\x01\x01",
        b"n,a=\xff,\x01auth=Bearer t\x01\x01",
    ],
)
def test_malformed_messages_are_refused_without_their_content(message):
    with pytest.raises(LoginRefused) as error:
        parse(message)
    assert "Bearer t" not in str(error.value)
