"""Creating, changing, deleting and restoring instances."""

from dataclasses import replace
from typing import Any

import pytest

from highwater.controller.core.change_instances import (
    INSTANCES_MAX,
    PURGE_AFTER_MS_MAX,
    closed_instance,
    create_instance,
    delete_instance,
    restore_instance,
    set_instance,
)
from highwater.controller.core.outcome import PENDING_REVISION, Decision, Refusal
from highwater.kafka.error_codes import ErrorCode
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from highwater.model.instances import InstanceListener, InstanceState
from tests.support.controller_images import image_with, with_instances

SHOP = InstanceId("shop")
EMPTY = image_with(1)
BLOCK = InstanceListener(port=19_000)
NOW_MS = 1_000_000


def state(name: str = "shop", **fields: Any) -> InstanceState:
    return InstanceState(instance=InstanceId(name), **fields)


def image_of(*states: InstanceState) -> ClusterImage:
    return with_instances(EMPTY, *states)


def after(image: ClusterImage, decision: Decision[Any]) -> ClusterImage:
    """The image with the change, for decisions that succeed."""
    assert not isinstance(decision.result, Refusal), decision.result.message
    if decision.delta is None:
        return image
    assert decision.delta.revision == PENDING_REVISION
    return image.apply(replace(decision.delta, revision=image.revision + 1))


def refused(decision: Decision[Any]) -> tuple[ErrorCode, str]:
    assert isinstance(decision.result, Refusal)
    assert decision.delta is None
    return decision.result.code, decision.result.message


def delete(
    image: ClusterImage, after_ms: int = 500, name: InstanceId = SHOP
) -> Decision[InstanceState | Refusal]:
    return delete_instance(image, name, now_ms=NOW_MS, purge_after_ms=after_ms)


def test_an_instance_is_created_in_its_usual_form() -> None:
    wanted = state(listeners=(BLOCK,), allowed_networks=("10.0.0.1",), partitions_max=3)
    image = after(EMPTY, create_instance(EMPTY, wanted))
    assert image.instances == {SHOP: replace(wanted, allowed_networks=("10.0.0.1/32",))}


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        (state("default"), ErrorCode.INVALID_REQUEST, "always there"),
        (state("_system"), ErrorCode.INVALID_REQUEST, "reserved"),
        (state("A"), ErrorCode.INVALID_REQUEST, "no instance id"),
        (state("there"), ErrorCode.DUPLICATE_RESOURCE, "exists already"),
        (state("gone"), ErrorCode.DUPLICATE_RESOURCE, "deleted and not purged yet"),
        (state(groups_max=-1), ErrorCode.INVALID_REQUEST, "limit of groups"),
        (state(listeners=(BLOCK,)), ErrorCode.INVALID_REQUEST, "of instance there"),
        (state(purge_at_ms=5), ErrorCode.INVALID_REQUEST, "deleted by DeleteInstance"),
    ],
)
def test_what_cannot_be_created(wanted: InstanceState, code: ErrorCode, words: str) -> None:
    image = image_of(state("there", listeners=(BLOCK,)), state("gone", purge_at_ms=9))
    found, message = refused(create_instance(image, wanted))
    assert found == code
    assert words in message


def test_the_number_of_instances_has_a_limit() -> None:
    image = image_of(*(state(f"i{n}") for n in range(INSTANCES_MAX)))
    code, message = refused(create_instance(image, state()))
    assert code == ErrorCode.POLICY_VIOLATION
    assert str(INSTANCES_MAX) in message


def test_set_replaces_everything() -> None:
    image = image_of(state(groups_max=4, listeners=(BLOCK,), delete_protection=True))
    wanted = state(storage_bytes=0)
    assert after(image, set_instance(image, wanted)).instances == {SHOP: wanted}


def test_what_is_so_already_changes_nothing() -> None:
    present = state(allowed_networks=("10.0.0.0/8",))
    decision = set_instance(image_of(present), present)
    assert decision == Decision(delta=None, result=None)


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        (state("nobody"), ErrorCode.RESOURCE_NOT_FOUND, "there is no instance 'nobody'"),
        (state("gone"), ErrorCode.INVALID_REQUEST, "restore it first"),
        (state(purge_at_ms=5), ErrorCode.INVALID_REQUEST, "deleted by DeleteInstance"),
        (state(connections_max=-1), ErrorCode.INVALID_REQUEST, "limit of connections"),
        (state(listeners=(BLOCK,)), ErrorCode.INVALID_REQUEST, "of instance there"),
        (state("default", listeners=(BLOCK,)), ErrorCode.INVALID_REQUEST, "own ports"),
    ],
)
def test_what_cannot_be_set(wanted: InstanceState, code: ErrorCode, words: str) -> None:
    image = image_of(state(), state("there", listeners=(BLOCK,)), state("gone", purge_at_ms=9))
    found, message = refused(set_instance(image, wanted))
    assert found == code
    assert words in message


def test_a_change_of_something_that_is_not_so_any_more_is_refused() -> None:
    present = state(groups_max=4)
    image = image_of(present)
    wanted = state(groups_max=4, storage_bytes=1)
    assert after(image, set_instance(image, wanted, previous=present)).instances == {SHOP: wanted}
    code, message = refused(set_instance(image, wanted, previous=state(groups_max=5)))
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert "somebody else" in message
    plain, limited = state("default"), state("default", partitions_max=3)
    assert after(EMPTY, set_instance(EMPTY, limited, previous=plain)).instances
    assert refused(set_instance(EMPTY, plain, previous=limited))[0] == code


def test_the_default_instance_gets_limits_without_being_created() -> None:
    wanted = state("default", partitions_max=3)
    assert after(EMPTY, set_instance(EMPTY, wanted)).instances == {DEFAULT_INSTANCE: wanted}


def test_deletion_says_when_it_is_purged_and_can_be_taken_back() -> None:
    present = state(listeners=(BLOCK,), groups_max=4)
    image = image_of(present)
    deleted = after(image, delete(image))
    assert deleted.instances == {SHOP: replace(present, purge_at_ms=NOW_MS + 500)}
    sooner = after(deleted, delete(deleted, 0))
    assert sooner.instances[SHOP].purge_at_ms == NOW_MS
    back = after(deleted, restore_instance(deleted, SHOP, now_ms=NOW_MS + 499))
    assert back.instances == {SHOP: present}


@pytest.mark.parametrize(
    ("name", "after_ms", "code", "words"),
    [
        ("nobody", 0, ErrorCode.RESOURCE_NOT_FOUND, "no instance 'nobody'"),
        ("kept", 0, ErrorCode.POLICY_VIOLATION, "protected from deletion"),
        ("default", 0, ErrorCode.INVALID_REQUEST, "default instance"),
        ("shop", -1, ErrorCode.INVALID_REQUEST, "not -1"),
        ("shop", PURGE_AFTER_MS_MAX + 1, ErrorCode.INVALID_REQUEST, "is purged after 0 to"),
    ],
)
def test_what_cannot_be_deleted(name: str, after_ms: int, code: ErrorCode, words: str) -> None:
    image = image_of(state(), state("kept", delete_protection=True), state("default"))
    found, message = refused(delete(image, after_ms, InstanceId(name)))
    assert found == code
    assert words in message


def test_what_cannot_be_restored() -> None:
    image = image_of(state(), state("gone", purge_at_ms=NOW_MS))

    def restore(name: str) -> tuple[ErrorCode, str]:
        return refused(restore_instance(image, InstanceId(name), now_ms=NOW_MS))

    assert restore("nobody")[0] == ErrorCode.RESOURCE_NOT_FOUND
    assert restore("shop") == (ErrorCode.INVALID_REQUEST, "instance 'shop' is not deleted")
    assert "is being purged" in restore("gone")[1]


def test_ports_that_were_taken_meanwhile_are_not_given_twice() -> None:
    """Gateways come by themselves, and may have been given the ports of a deleted instance."""
    image = image_of(state(listeners=(BLOCK,), purge_at_ms=9), state("other", listeners=(BLOCK,)))
    assert "of instance other" in refused(restore_instance(image, SHOP, now_ms=0))[1]


def test_where_something_can_be_added() -> None:
    image = image_of(state(), state("gone", purge_at_ms=NOW_MS + 1_000))
    for name in ("shop", "default", "_system"):
        assert closed_instance(image, InstanceId(name)) is None
    for name, words in (
        ("gone", "is deleted"),
        ("nobody", "there is no instance"),
        ("", "no inst"),
    ):
        refusal = closed_instance(image, InstanceId(name))
        assert refusal is not None
        assert refusal.code == ErrorCode.INVALID_REQUEST
        assert words in refusal.message


def test_only_what_concerns_the_instance_is_in_a_delta() -> None:
    decision = create_instance(EMPTY, state())
    assert decision.delta == ClusterDelta(revision=PENDING_REVISION, instances=(state(),))
