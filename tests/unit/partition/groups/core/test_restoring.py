from highwater.kafka.error_codes import ErrorCode
from highwater.partition.groups.core import restoring
from highwater.partition.groups.core.config import GroupConfig
from highwater.partition.groups.core.durable import GroupImage, MemberImage
from highwater.partition.groups.core.shard_state import ShardState
from highwater.partition.groups.core.state import EMPTY, STABLE
from tests.unit.partition.groups.dialogue import Dialogue, key

MEMBER = MemberImage(
    member_id="m",
    instance_id="i",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=60_000,
    session_timeout_ms=10_000,
    subscription=b"meta",
    assignment=b"A",
)


def image(*members):
    return GroupImage(
        protocol_type="consumer",
        generation=5,
        protocol="range",
        leader="m",
        state_since_ms=7,
        members=members,
    )


def test_a_group_is_as_its_image_says():
    state = ShardState(GroupConfig(), lambda: "x")
    d = Dialogue()
    restoring.restore_group(state, key("g"), image(MEMBER), d.moment)
    group = state.groups[key("g")]
    assert (group.state, group.generation, group.protocol, group.leader) == (
        STABLE,
        5,
        "range",
        "m",
    )
    assert (group.static_members, group.state_since_ms) == ({"i": "m"}, 7)
    assert state.timers.next_deadline_ms() == 10_000
    state.dissolve(group, ErrorCode.REBALANCE_IN_PROGRESS, 0)
    assert (len(state.timers), state.metadata_counts.total, state.groups) == (0, 0, {})


def test_a_group_without_members_is_empty():
    state = ShardState(GroupConfig(), lambda: "x")
    restoring.restore_group(state, key("g"), image(), Dialogue().moment)
    assert state.groups[key("g")].state is EMPTY
