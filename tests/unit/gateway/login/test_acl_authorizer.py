import pytest

from highwater.gateway.login.acl_authorizer import AclAuthorizer
from highwater.model.acl_operations import AclOperation
from highwater.model.acls import Permission
from highwater.model.authorization import (
    ANONYMOUS,
    Requester,
    Resource,
    ResourceType,
    TopicView,
)
from highwater.model.ids import DEFAULT_INSTANCE, InstanceId
from tests.support.acls import acl, who

READ, TOPIC = AclOperation.READ, ResourceType.TOPIC
T = Resource(TOPIC, "t")


class World:
    def __init__(self, *acls, super_users=(), allow_if_no_acl=False):
        self.acls = frozenset(acls)
        self.open = set()
        self.authorizer = AclAuthorizer(
            lambda: self.acls,
            super_users=frozenset(super_users),
            allow_if_no_acl=lambda instance: allow_if_no_acl or instance in self.open,
        )

    def allows(self, requester=None, resource=T):
        return self.authorizer.allows(requester or who(), READ, resource)

    def allows_any(self, requester=None):
        return self.authorizer.allows_any(requester or who(), READ, TOPIC)


def test_without_entries_nobody_may_do_anything():
    w = World()
    assert not w.allows()
    assert not w.allows_any()
    assert not w.authorizer.allows_all


def test_entries_allow():
    w = World(acl("t"))
    assert w.allows()
    assert not w.allows(who("bob"))
    assert w.allows_any()
    assert not w.allows_any(who("bob"))


def test_a_change_is_seen_at_once():
    w = World()
    assert not w.allows()
    w.acls = frozenset((acl("t"),))
    assert w.allows()
    w.acls = frozenset((acl("t"), acl("t", permission=Permission.DENY)))
    assert not w.allows()


@pytest.mark.parametrize(
    ("name", "requester"),
    [
        ("User:alice", who()),
        ("User:ANONYMOUS", Requester(ANONYMOUS, DEFAULT_INSTANCE, "10.0.0.1")),
    ],
)
def test_super_users_may_do_everything(name, requester):
    w = World(acl("*", permission=Permission.DENY, principal="User:*"), super_users=(name,))
    assert w.allows(requester)
    assert w.allows_any(requester)
    assert not w.allows(who("bob"))


def test_resources_without_entries_may_be_everybody_s():
    w = World(acl("t"), allow_if_no_acl=True)
    assert w.allows(who("bob"), Resource(TOPIC, "u"))
    assert not w.allows(who("bob"))
    assert w.allows_any(who("bob"))


def test_another_instance_has_no_super_users_and_entries_of_its_own():
    w = World(acl("t"), super_users=("User:root",))
    tenant = InstanceId("a")
    assert w.allows(who("root"))
    assert w.allows_any(who("root"))
    for name in ("root", "alice"):
        stranger = who(name)._replace(instance=tenant)
        assert not w.allows(stranger)
        assert not w.allows_any(stranger)
    w.acls = frozenset((acl("t")._replace(instance=tenant),))
    assert w.allows(who("alice")._replace(instance=tenant))
    assert not w.allows(who("alice"))


def test_one_instance_may_be_open_and_another_closed():
    w = World()
    shop, bank = (
        Requester(who().principal, InstanceId(name), "10.0.0.1") for name in ("shop", "bank")
    )
    w.open.add(shop.instance)
    assert w.allows(shop)
    assert w.allows_any(shop)
    assert not w.allows(bank)
    assert not w.allows_any(bank)
    w.open.clear()
    assert not w.allows(shop), "asked anew each time"


def test_what_a_client_may_describe_is_told_to_coordinators():
    w = World(super_users=("User:root",), allow_if_no_acl=True)
    alice = who()
    assert w.authorizer.topic_view(alice) == TopicView(alice.principal, "10.0.0.1", True)
    assert w.authorizer.topic_view(who("root")) is None
    elsewhere = who("root", instance=InstanceId("team"))
    assert w.authorizer.topic_view(elsewhere) == TopicView(elsewhere.principal, "10.0.0.1", True)
