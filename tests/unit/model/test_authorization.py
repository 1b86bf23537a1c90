from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import (
    ANONYMOUS,
    THE_CLUSTER,
    AllowAll,
    Requester,
    Resource,
    ResourceType,
    denied_names,
)
from highwater.model.ids import DEFAULT_INSTANCE


def test_a_cluster_without_acls_allows_everything():
    who = Requester(ANONYMOUS, DEFAULT_INSTANCE, "192.0.2.7")
    assert all(AllowAll().allows(who, operation, THE_CLUSTER) for operation in AclOperation)
    assert AllowAll().topic_view(who) is None


def test_nothing_is_asked_where_everything_is_allowed():
    who = Requester(ANONYMOUS, DEFAULT_INSTANCE, "192.0.2.7")
    assert AllowAll().allows_any(who, AclOperation.WRITE, ResourceType.TOPIC)
    names = iter(["never", "looked", "at"])
    assert not denied_names(AllowAll(), who, AclOperation.READ, ResourceType.TOPIC, names)
    assert next(names) == "never"


def test_each_name_is_asked_about_once():
    asked = []

    class NoB:
        allows_all = False

        def allows(self, who, operation, resource):
            asked.append((operation, resource))
            return resource.name != "b"

        def allows_any(self, who, operation, resource_type):
            raise NotImplementedError

        def topic_view(self, who):
            raise NotImplementedError

    who = Requester(ANONYMOUS, DEFAULT_INSTANCE, "192.0.2.7")
    names = ["a", "b", "a", "b", "c"]
    denied = denied_names(NoB(), who, AclOperation.READ, ResourceType.GROUP, names)
    assert denied == {"b"}
    assert asked == [(AclOperation.READ, Resource(ResourceType.GROUP, name)) for name in "abc"]
