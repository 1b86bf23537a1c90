import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.list_groups import ListGroupsRequest
from highwater.partition.groups.handlers import list_groups
from tests.unit.partition.groups.dialogue import Dialogue
from tests.unit.partition.groups.handlers.exchange import Exchange


def handle(x: Exchange, message, version: int, *, loading: bool = False):
    other = Dialogue()
    other.commit({("t", 0): 1}, group="simple")
    shards = [x.d.shard, other.shard]
    return x.decode(list_groups.handle(shards, x.call(message, version), loading=loading), version)


@pytest.mark.parametrize("version", range(6))
def test_every_version(version):
    x = Exchange(16)
    x.d.stable_pair()
    answer = handle(x, ListGroupsRequest(), version)
    assert answer.error_code == 0
    assert [(g.group_id, g.protocol_type) for g in answer.groups] == [
        ("g", "consumer"),
        ("simple", ""),
    ]
    states = ["Stable", "Empty"] if version >= 4 else ["", ""]
    assert [g.group_state for g in answer.groups] == states
    assert {g.group_type for g in answer.groups} == {"classic" if version >= 5 else ""}


def test_filters():
    x = Exchange(16)
    x.d.stable_pair()
    answer = handle(x, ListGroupsRequest(states_filter=["Stable"]), 4)
    assert [g.group_id for g in answer.groups] == ["g"]
    assert list(handle(x, ListGroupsRequest(types_filter=["share"]), 5).groups) == []


def test_loading_is_an_error_beside_known_groups():
    answer = handle(Exchange(16), ListGroupsRequest(), 4, loading=True)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert len(answer.groups) == 1
