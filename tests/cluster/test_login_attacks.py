"""Logins that try to get in by what another one has shown, or by less than they should show."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.metadata import MetadataRequest
from highwater.model.scram import ScramMechanism
from tests.robustness.fuzz.guarded import AUDIENCE, PASSWORD, USER, Guarded, start_guarded
from tests.robustness.fuzz.login_frames import bad_tokens
from tests.support.raw_login import ITERATIONS, ScramClient, choose, give, plain
from tests.support.tokens import message
from tests.support.wire import ConnectionEnded, RawConnection

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
pytestmark = pytest.mark.timeout(300)
FAILED = ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = start_guarded(tmp_path_factory.mktemp("attacks"), login_failure_delay_s="0.01")
    yield made
    made.check_good_logins()
    made.check_a_bad_login()  # The tests of this worker may be good logins only.
    made.check_log()
    made.cluster.stop()


@pytest.fixture
def attacker(guarded: Guarded) -> Iterator[RawConnection]:
    with guarded.connect(secure=False) as connection:
        yield connection


def client(mechanism: ScramMechanism = SHA_256, **changes: str) -> ScramClient:
    said = {"user": USER, "password": PASSWORD, **changes}
    return ScramClient(mechanism=mechanism, **said)


def challenged(connection: RawConnection, who: ScramClient) -> bytes:
    """The server's challenge."""
    assert choose(connection, who.mechanism.mechanism_name) == ErrorCode.NONE
    answer = give(connection, who.first())
    assert answer.error_code == ErrorCode.NONE
    return bytes(answer.auth_bytes)


def is_out(connection: RawConnection) -> bool:
    """True if a request that needs a login is not answered."""
    try:
        connection.ask(MetadataRequest(), 9)
    except ConnectionEnded:
        return True
    return False


def test_what_is_changed_below_gets_in_when_it_is_not_changed(attacker: RawConnection) -> None:
    alice = client()
    answer = give(attacker, alice.final(challenged(attacker, alice)))
    assert answer.error_code == ErrorCode.NONE
    assert bytes(answer.auth_bytes).startswith(b"v=")
    assert not is_out(attacker)


@pytest.mark.parametrize("gs2", ["p=tls-unique,,", "p=tls-exporter,,", "p=,,", "x,,", ",,", ""])
def test_bindings_to_a_channel_are_not_spoken(attacker: RawConnection, gs2: str) -> None:
    assert choose(attacker, "SCRAM-SHA-256") == ErrorCode.NONE
    assert give(attacker, client(gs2=gs2).first()).error_code == FAILED
    assert is_out(attacker)


@pytest.mark.parametrize("said_later", [b"y,,", b"p=tls-unique,,", b"n,a=alice,", b""])
@pytest.mark.parametrize("gs2", ["n,,", "y,,"])
def test_what_is_said_of_the_channel_has_to_stay(
    attacker: RawConnection, gs2: str, said_later: bytes
) -> None:
    if said_later == gs2.encode():
        said_later = b"n,,"
    alice = client(gs2=gs2)
    final = alice.final(challenged(attacker, alice), binding=said_later)
    assert give(attacker, final).error_code == FAILED
    assert is_out(attacker)


def test_another_mechanism_than_the_one_that_was_chosen(attacker: RawConnection) -> None:
    """The shorter hash where the longer one was asked for, proven in all other ways."""
    longer, shorter = client(SHA_512), client(SHA_256)
    assert give(attacker, shorter.final(challenged(attacker, longer))).error_code == FAILED
    assert is_out(attacker)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_password_where_another_mechanism_was_chosen(
    attacker: RawConnection, mechanism: str
) -> None:
    assert choose(attacker, mechanism) == ErrorCode.NONE
    answer = give(attacker, plain(USER, PASSWORD))
    if (
        mechanism == "OAUTHBEARER"
    ):  # Which tells the client first, and hears that it has understood.
        answer = give(attacker, b"\x01")
    assert answer.error_code == FAILED
    assert is_out(attacker)


@pytest.mark.parametrize("as_it_was", [True, False])
def test_a_captured_login_is_played_again(
    guarded: Guarded, attacker: RawConnection, *, as_it_was: bool
) -> None:
    """Every byte of a login that has succeeded; or its proof with the new nonce."""
    alice = client()
    with guarded.connect(secure=False) as seen:
        first_challenge = challenged(seen, alice)
        final = alice.final(first_challenge)
        assert give(seen, final).error_code == ErrorCode.NONE
    challenge = challenged(attacker, alice)
    assert challenge != first_challenge, "the server's part of the nonce is new each time"
    if not as_it_was:
        old, new = (one.split(b",")[0] for one in (first_challenge, challenge))
        final = final.replace(old, new)
    assert give(attacker, final).error_code == FAILED
    assert is_out(attacker)


def test_a_captured_login_while_the_first_goes_on(
    guarded: Guarded, attacker: RawConnection
) -> None:
    """A proof is for its own connection, also before that one has used it."""
    alice = client()
    challenged(attacker, alice)
    with guarded.connect(secure=False) as seen:
        final = alice.final(challenged(seen, alice))
        assert give(attacker, final).error_code == FAILED
        assert give(seen, final).error_code == ErrorCode.NONE
    assert is_out(attacker)


def test_a_nonce_that_is_only_the_client_s(attacker: RawConnection) -> None:
    alice = client()
    final = alice.final(challenged(attacker, alice), nonce=alice.nonce)
    assert give(attacker, final).error_code == FAILED


def test_nonces_are_never_the_same(guarded: Guarded) -> None:
    seen = set()
    for _ in range(20):
        with guarded.connect(secure=False) as connection:
            seen.add(challenged(connection, client()).split(b",")[0])
    assert len(seen) == 20


@pytest.mark.parametrize("iterations", [1, ITERATIONS - 1, ITERATIONS * 2])
def test_other_iterations_than_the_server_s(attacker: RawConnection, iterations: int) -> None:
    alice = client()
    final = alice.final(challenged(attacker, alice), iterations=iterations)
    assert give(attacker, final).error_code == FAILED


@pytest.mark.parametrize("proof", [b"", bytes(32), bytes(64), b"x" * 31, b"x" * 20_000])
def test_proofs_that_are_none(attacker: RawConnection, proof: bytes) -> None:
    alice = client()
    final = alice.final(challenged(attacker, alice))
    unproven, _, _ = final.rpartition(b",p=")
    answer = give(attacker, unproven + b",p=" + base64.b64encode(proof))
    assert answer.error_code == FAILED
    assert is_out(attacker)


@pytest.mark.parametrize(
    "first",
    [
        b"n,,n=" + b"a" * 60_000 + b",r=x",
        b"n,,n=alice,r=" + b"x" * 60_000,
        b"n,,n=alice,r=x," + b"e=" + b"x" * 60_000,
        b"n,a=" + b"a" * 60_000 + b",n=alice,r=x",
        b"n,,n=alice,r=x" + b",a=b" * 15_000,
        b"," * 60_000,
        b"=" * 60_000,
    ],
)
def test_fields_of_any_length(attacker: RawConnection, first: bytes) -> None:
    """They end soon, one way or the other: nobody waits for them."""
    assert choose(attacker, "SCRAM-SHA-512") == ErrorCode.NONE
    answer = give(attacker, first)
    if answer.error_code == ErrorCode.NONE:
        answer = give(attacker, b"c=biws,r=x,p=AAAA")
    assert answer.error_code == FAILED


def test_tokens_that_are_good_for_nothing(guarded: Guarded) -> None:
    """Unsigned, signed with what is public, by a stranger, for others, too old, too deep, too long."""
    tokens = bad_tokens(guarded.issuer, AUDIENCE)
    tokens.append(guarded.issuer.token(aud=AUDIENCE, filler="x" * 20_000))
    tokens.append("A" * 60_000)
    for token in tokens:
        with guarded.connect(secure=False) as connection:
            assert choose(connection, "OAUTHBEARER") == ErrorCode.NONE
            answer = give(connection, message(token))
            if answer.error_code == ErrorCode.NONE:
                assert bytes(answer.auth_bytes) == b'{"status":"invalid_token"}', token[:60]
                answer = give(connection, b"\x01")
            assert answer.error_code == FAILED
            assert is_out(connection)
