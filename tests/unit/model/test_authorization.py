from highwater.model.acl_operations import AclOperation
from highwater.model.authorization import ANONYMOUS, THE_CLUSTER, AllowAll, Requester
from highwater.model.ids import DEFAULT_INSTANCE


def test_a_cluster_without_acls_allows_everything():
    who = Requester(ANONYMOUS, DEFAULT_INSTANCE, "192.0.2.7")
    assert all(AllowAll().allows(who, operation, THE_CLUSTER) for operation in AclOperation)
