import pytest

from highwater.gateway.login.users import Users
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.scram import ScramKey, ScramMechanism, salted_password, scram_credential

SHA_256, SHA_512 = ScramMechanism
OTHER = InstanceId("other")


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


def test_a_user_is_found_in_the_newest_credentials(known):
    users = Users(lambda: known)
    assert users.find(DEFAULT_INSTANCE, "bob", SHA_256)[1]
    known.clear()
    assert not users.find(DEFAULT_INSTANCE, "bob", SHA_256)[1]


@pytest.mark.parametrize("user", ["carol", "nobody"])
def test_a_user_of_nowhere_or_of_another_instance_looks_like_any_other(known, user):
    users = Users(lambda: known)
    found, is_known = users.find(DEFAULT_INSTANCE, user, SHA_512)
    assert not is_known
    assert (found.iterations, len(found.salt)) == (4096, 16)
    assert users.find(DEFAULT_INSTANCE, user, SHA_512)[0] == found, "a salt that stays"
    assert users.find(DEFAULT_INSTANCE, user + "2", SHA_512)[0].salt != found.salt
    assert Users(lambda: known).find(DEFAULT_INSTANCE, user, SHA_512)[0].salt != found.salt


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
    assert Users(lambda: known).password_check(instance, user, password)() is fits
