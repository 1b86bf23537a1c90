import pytest

from highwater.controller.core import change_acls as module
from highwater.controller.core.change_acls import create_acls, delete_acls
from highwater.kafka.error_codes import ErrorCode
from highwater.model.acls import ANY, AclFilter
from highwater.model.authorization import ResourceType
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from tests.support.acls import acl

OTHER = InstanceId("other")


def image(*acls):
    return ClusterImage(revision=1, cluster_id="c", acls=frozenset(acls))


def wanted(**more):
    fields = {"kind": ANY, "pattern": ANY, "name": None, **more}
    return AclFilter(
        DEFAULT_INSTANCE, fields["kind"], fields["pattern"], fields["name"], None, None, ANY, ANY
    )


def test_new_entries_are_added():
    there, new = acl("there"), acl("new")
    decision = create_acls(image(there), [there, new, new])
    assert decision.result == [None, None, None]
    assert decision.delta.acls == {new: True}
    assert create_acls(image(there), [there]).delta is None


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (acl(""), "Resource name"),
        (acl("x", kind=ResourceType.CLUSTER), "kafka-cluster"),
        (acl(principal="alice"), "no colon"),
        (acl(host=""), "Host"),
        (acl("x" * 1_025), "1024 characters"),
        (acl(operation=1), "Invalid operation 1"),
        (acl(kind=99), "Invalid resource type 99"),
    ],
)
def test_entries_that_are_none(entry, why):
    good = acl("good")
    decision = create_acls(image(), [entry, good])
    refusal, accepted = decision.result
    assert refusal.code == ErrorCode.INVALID_REQUEST
    assert why in refusal.message
    assert accepted is None
    assert decision.delta.acls == {good: True}


def test_an_instance_has_a_limit_of_its_own(monkeypatch):
    monkeypatch.setattr(module, "ACLS_MAX", 2)
    known = image(acl("a"), acl("b", instance=OTHER))
    decision = create_acls(known, [acl("b"), acl("a"), acl("c")])
    assert [refusal and refusal.code for refusal in decision.result] == [
        None, None, ErrorCode.POLICY_VIOLATION,
    ]  # fmt: skip
    assert decision.delta.acls == {acl("b"): True}


def test_filters_remove_and_tell_what_they_match():
    a, b, other = acl("a"), acl("b"), acl("a", instance=OTHER)
    decision = delete_acls(
        image(a, b, other), [wanted(name="a"), wanted(), wanted(name="c"), wanted(kind=0)]
    )
    first, second, third, fourth = decision.result
    assert (first.acls, second.acls, third.acls) == ((a,), (a, b), ())
    assert fourth.refusal.code == ErrorCode.INVALID_REQUEST
    assert decision.delta.acls == {a: False, b: False}
    assert delete_acls(image(a), [wanted(name="c")]).delta is None


def test_an_image_follows():
    a, b = acl("a"), acl("b")
    changed = image(a).apply(ClusterDelta(revision=2, acls={b: True, a: False}))
    assert changed.acls == {b}
    assert changed.apply(ClusterDelta(revision=3)).acls is changed.acls
