import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.delete_groups import DeleteGroupsRequest
from highwater.partition.groups.handlers import delete_groups
from tests.unit.partition.groups.handlers.exchange import Exchange


@pytest.mark.parametrize("version", range(3))
def test_every_version(version):
    x = Exchange(42)
    x.d.stable_pair()
    x.d.commit({("t", 0): 1}, group="simple")

    def shard_of(group_id):
        return ErrorCode.NOT_COORDINATOR if group_id == "elsewhere" else x.d.shard

    names = ["simple", "simple", "g", "?", "elsewhere"]
    call = x.call(DeleteGroupsRequest(groups_names=names), version)
    answer = x.decode(delete_groups.handle(shard_of, call, x.d.moment), version)
    assert [(r.group_id, r.error_code) for r in answer.results] == [
        ("simple", 0),
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("?", ErrorCode.GROUP_ID_NOT_FOUND),
        ("elsewhere", ErrorCode.NOT_COORDINATOR),
    ]
    assert x.d.committed("t", 0, group="simple") is None
