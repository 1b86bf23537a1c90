"""SCRAM credentials: what is refused, what is stored, and what is told."""

from dataclasses import replace

import pytest

from highwater.controller.core import change_scram_users
from highwater.controller.core.change_scram_users import (
    SALT_BYTES_MAX,
    USER_LENGTH_MAX,
    ScramChange,
    alter_scram_users,
    describe_scram_users,
)
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterDelta
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.scram import ScramCredential, ScramKey, ScramMechanism
from tests.support.controller_images import image_of

SHA_256, SHA_512 = ScramMechanism
OTHER = InstanceId("other")


def credential(iterations: int = 4_096, salt: bytes = b"salt") -> ScramCredential:
    return ScramCredential(iterations=iterations, salt=salt, stored_key=b"a", server_key=b"b")


def key(
    user: str, mechanism: ScramMechanism = SHA_256, instance: InstanceId = DEFAULT_INSTANCE
) -> ScramKey:
    return ScramKey(instance, user, mechanism)


IMAGE = replace(
    image_of(),
    scram_credentials={
        key("bob", SHA_512): credential(5_000),
        key("alice"): credential(4_096),
        key("alice", SHA_512): credential(6_000),
        key("carol", instance=OTHER): credential(7_000),
    },
)


def alter(*changes: ScramChange) -> tuple[ClusterDelta | None, dict[str, tuple[int, str]]]:
    decision = alter_scram_users(IMAGE, DEFAULT_INSTANCE, changes)
    told = {user: (r.code, r.message) if r else (0, "") for user, r in decision.result.items()}
    return decision.delta, told


def new(user: str, mechanism: int = SHA_256, **fields: int | bytes) -> ScramChange:
    made = replace(credential(), **fields)  # type: ignore[arg-type]
    return ScramChange(user=user, mechanism=mechanism, credential=made)


def gone(user: str, mechanism: int = SHA_256) -> ScramChange:
    return ScramChange(user=user, mechanism=mechanism, credential=None)


def refusal(change: ScramChange) -> tuple[int, str]:
    delta, told = alter(change)
    assert delta is None
    return told[change.user]


def test_credentials_are_added_replaced_and_removed() -> None:
    delta, told = alter(gone("bob", SHA_512), new("alice", iterations=16_384), new("dave", SHA_512))
    assert told == dict.fromkeys(["bob", "alice", "dave"], (0, ""))
    assert delta is not None
    assert delta.scram_credentials == {
        key("bob", SHA_512): None,
        key("alice"): credential(16_384),
        key("dave", SHA_512): credential(),
    }
    after = IMAGE.apply(replace(delta, revision=IMAGE.revision + 1)).scram_credentials
    assert sorted(after) == [
        key("alice"), key("alice", SHA_512), key("dave", SHA_512), key("carol", instance=OTHER),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (new(""), "Username must not be empty"),
        (gone(""), "Username must not be empty"),
        (new("x", iterations=4_095), "Too few iterations"),
        (new("x", SHA_512, iterations=4_095), "Too few iterations"),
        (new("x", iterations=16_385), "Too many iterations"),
        (new("x" * (USER_LENGTH_MAX + 1)), "at most 1024 characters"),
        (new("x", salt=bytes(SALT_BYTES_MAX + 1)), "at most 1024 bytes"),
    ],
)
def test_credentials_that_are_not_acceptable(change: ScramChange, why: str) -> None:
    code, message = refusal(change)
    assert code == ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert why in message


@pytest.mark.parametrize("change", [new("x", 0), new("x", 3), gone("alice", 7)])
def test_unknown_mechanisms(change: ScramChange) -> None:
    assert refusal(change) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


@pytest.mark.parametrize("change", [gone("nobody"), gone("bob"), gone("carol")])
def test_what_is_not_there_cannot_be_removed(change: ScramChange) -> None:
    code, _ = refusal(change)
    assert code == ErrorCode.RESOURCE_NOT_FOUND


def test_a_user_who_is_named_twice_is_not_changed() -> None:
    for changes in (
        [gone("alice"), new("alice", SHA_512)],
        [new("alice"), new("alice", SHA_512), new("alice")],
        [gone("alice"), gone("alice", SHA_512)],
    ):
        delta, told = alter(*changes, new("dave"))
        assert told["alice"][0] == ErrorCode.DUPLICATE_RESOURCE
        assert told["dave"] == (0, "")
        assert delta is not None
        assert list(delta.scram_credentials) == [key("dave")]


def test_the_first_error_of_a_user_stays() -> None:
    delta, told = alter(gone("nobody"), new("nobody"), new("nobody"))
    assert delta is None
    assert told["nobody"][0] == ErrorCode.RESOURCE_NOT_FOUND


def test_the_number_of_credentials_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_scram_users, "CREDENTIALS_MAX", 4)
    delta, told = alter(new("dave"), new("eve"), new("bob", SHA_512))
    assert [code for code, _ in told.values()] == [0, ErrorCode.POLICY_VIOLATION, 0]
    assert delta is not None
    assert list(delta.scram_credentials) == [key("dave"), key("bob", SHA_512)]


def describe(*users: str) -> list[tuple[str, int, tuple[tuple[int, int], ...]]]:
    found = describe_scram_users(IMAGE, DEFAULT_INSTANCE, users)
    return [(one.user, one.refusal.code if one.refusal else 0, one.iterations) for one in found]


def test_all_users_of_the_instance_are_told() -> None:
    alice, bob = ((SHA_256, 4_096), (SHA_512, 6_000)), ((SHA_512, 5_000),)
    assert describe() == [("alice", 0, alice), ("bob", 0, bob)]


def test_users_that_are_asked_for() -> None:
    assert describe("bob", "nobody", "carol", "alice", "alice") == [
        ("bob", 0, ((SHA_512, 5_000),)),
        ("nobody", ErrorCode.RESOURCE_NOT_FOUND, ()),
        ("carol", ErrorCode.RESOURCE_NOT_FOUND, ()),
        ("alice", ErrorCode.DUPLICATE_RESOURCE, ()),
    ]
