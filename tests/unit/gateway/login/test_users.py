import pytest

from highwater.gateway.login.users import Users
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.scram import (
    ITERATIONS_DEFAULT,
    ScramKey,
    ScramMechanism,
    salted_password,
    scram_credential,
)

SHA_256, SHA_512 = ScramMechanism
OTHER = InstanceId("other")
SECRET = b"of the cluster"


def credential(mechanism, password, salt=b"salt"):
    salted = salted_password(mechanism, password, salt=salt, iterations=4096)
    return scram_credential(mechanism, iterations=4096, salt=salt, salted_password=salted)


@pytest.fixture
def known():
    return {
        ScramKey(DEFAULT_INSTANCE, "alice", SHA_256): credential(SHA_256, b"a-256"),
        ScramKey(DEFAULT_INSTANCE, "alice", SHA_512): credential(SHA_512, b"a-512"),
        ScramKey(DEFAULT_INSTANCE, "bob", SHA_256): credential(SHA_256, b"bob's"),
        ScramKey(OTHER, "carol", SHA_512): credential(SHA_512, b"carol's"),
    }


def users_of(known, secret=SECRET):
    return Users(lambda: known, lambda: secret)


def test_a_user_is_found_in_the_newest_credentials(known):
    users = users_of(known)
    assert users.find(DEFAULT_INSTANCE, "bob", SHA_256)[1]
    known.clear()
    assert not users.find(DEFAULT_INSTANCE, "bob", SHA_256)[1]


@pytest.mark.parametrize("user", ["carol", "nobody"])
def test_a_user_of_nowhere_or_of_another_instance_looks_like_any_other(known, user):
    users = users_of(known)
    found, is_known = users.find(DEFAULT_INSTANCE, user, SHA_512)
    assert not is_known
    assert (found.iterations, len(found.salt)) == (4096, 16)
    assert users.find(DEFAULT_INSTANCE, user, SHA_512)[0] == found, "a salt that stays"
    assert users.find(DEFAULT_INSTANCE, user + "2", SHA_512)[0].salt != found.salt
    again = users_of(known).find(DEFAULT_INSTANCE, user, SHA_512)[0]
    assert again == found, "at another gateway, and after a restart, too"
    foreign = users_of(known, b"of another cluster").find(DEFAULT_INSTANCE, user, SHA_512)[0]
    assert foreign.salt != found.salt, "nobody can compute it who does not know the secret"


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_the_same_name_in_two_instances_has_two_salts_as_users_would(known, mechanism):
    users = users_of(known)
    salts = {users.find(where, "nobody", mechanism)[0].salt for where in (DEFAULT_INSTANCE, OTHER)}
    assert len(salts) == 2


@pytest.fixture
def hashed(monkeypatch):
    """Which passwords were salted: mechanism and iterations of each."""
    calls = []

    def salted(mechanism, password, *, salt, iterations):
        calls.append((mechanism, iterations))
        return salted_password(mechanism, password, salt=salt, iterations=iterations)

    monkeypatch.setattr("highwater.gateway.login.users.salted_password", salted)
    return calls


def test_a_password_of_nobody_costs_what_one_costs_by_default(known, hashed):
    users = users_of(known)
    assert not users.password_check(DEFAULT_INSTANCE, "nobody", b"a-512")()
    assert users.password_check(DEFAULT_INSTANCE, "alice", b"a-512")()
    assert hashed == [(SHA_512, ITERATIONS_DEFAULT)] * 2


@pytest.mark.parametrize(
    ("instance", "user", "password", "fits"),
    [
        (DEFAULT_INSTANCE, "alice", b"a-512", True),
        (DEFAULT_INSTANCE, "alice", b"a-256", False),
        (DEFAULT_INSTANCE, "bob", b"bob's", True),
        (DEFAULT_INSTANCE, "bob", b"bob", False),
        (DEFAULT_INSTANCE, "carol", b"carol's", False),
        (OTHER, "carol", b"carol's", True),
        (OTHER, "nobody", b"", False),
    ],
)
def test_a_password_is_checked_against_the_strongest_credential(
    known, instance, user, password, fits
):
    assert users_of(known).password_check(instance, user, password)() is fits
