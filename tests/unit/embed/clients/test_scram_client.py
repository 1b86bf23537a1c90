import pytest

from highwater.embed.clients.scram_client import ScramClient
from highwater.gateway.login.scram_server import ScramServer
from highwater.model.errors import UnreachableError
from highwater.model.scram import ScramMechanism, salted_password, scram_credential

SALT = b"0123456789abcdef"


def test_the_example_of_the_rfc():
    """RFC 7677, section 3."""
    client = ScramClient(
        ScramMechanism.SCRAM_SHA_256, "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO"
    )
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert client.final(b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096") == (
        b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    client.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "ü"])
def test_our_own_server_takes_it(mechanism, user):
    def find(name):
        assert name == user
        salted = salted_password(mechanism, "p,=ü".encode(), salt=SALT, iterations=4096)
        return scram_credential(mechanism, iterations=4096, salt=SALT, salted_password=salted), True

    client = ScramClient(mechanism, user, "p,=ü", nonce="abc")
    server = ScramServer(mechanism, find=find, nonce="def")
    client.check(server.final(client.final(server.first(client.first()))))


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"", "malformed"),
        (b"r=other,s=c2FsdA==,i=4096", "malformed"),
        (b"r=abcdef,s=!,i=4096", "malformed"),
        (b"r=abcdef,s=c2Fsd,i=4096", "malformed"),
        (b"r=abcdef,s=c2FsdA==,i=1", "1 iterations"),
        (b"r=abcdef,s=c2FsdA==,i=999999999", "999999999 iterations"),
    ],
)
def test_servers_that_do_not_keep_to_the_rules(message, told):
    client = ScramClient(ScramMechanism.SCRAM_SHA_512, "alice", "secret", nonce="abc")
    with pytest.raises(UnreachableError, match=told):
        client.final(message)


@pytest.mark.parametrize("message", [b"", b"v=", b"v=c2FsdA==", b"e=other-error"])
def test_a_server_that_does_not_know_the_password(message):
    client = ScramClient(ScramMechanism.SCRAM_SHA_512, "alice", "secret", nonce="abc")
    client.final(b"r=abcdef,s=c2FsdA==,i=4096")
    with pytest.raises(UnreachableError, match="has not proven"):
        client.check(message)
