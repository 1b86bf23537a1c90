import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestJoinGroupRequestProtocol,
)
from highwater.partition.groups.core.values import JoinedMember, JoinResponse
from highwater.partition.groups.handlers import join_group
from tests.unit.partition.groups.dialogue import key
from tests.unit.partition.groups.handlers.exchange import Exchange


def request(**fields):
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=7_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestJoinGroupRequestProtocol(name="range", metadata=b"m")],
        **fields,
    )


def handle(x: Exchange, message, version: int, host: str = "10.0.0.1"):
    """The reply's response, or None when the call is parked."""
    call = x.call(message, version, host)
    join_group.handle(x.d.shard, call, x.d.moment)
    replies = [r for r in x.d.shard.take_replies() if r.token is call]
    return x.decode(join_group.encode(replies[0].response, version), version) if replies else None


@pytest.mark.parametrize("version", range(10))
def test_first_join_in_every_version(version):
    x = Exchange(11)
    timeouts = {"rebalance_timeout_ms": 9_000} if version >= 1 else {}
    answer = handle(x, request(**timeouts), version)
    group = x.d.shard.groups[key("g")]
    if version >= 4:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert answer.member_id == "app-id1"
        assert answer.protocol_name == (None if version >= 7 else "")
        assert list(group.pending_members) == ["app-id1"]
        return
    assert answer is None
    member = group.members["app-id1"]
    assert member.session_timeout_ms == 7_000
    assert member.rebalance_timeout_ms == (9_000 if version else 7_000)
    assert member.client_host == "/10.0.0.1"
    assert member.protocols == {"range": b"m"}


@pytest.mark.parametrize("version", range(5, 10))
def test_instance_ids_come_through(version):
    x = Exchange(11)
    handle(x, request(group_instance_id="s1", rebalance_timeout_ms=-5), version, host="/::1")
    (member,) = x.d.shard.groups[key("g")].members.values()
    assert (member.instance_id, member.rebalance_timeout_ms) == ("s1", 0)
    assert member.client_host == "/::1"


@pytest.mark.parametrize("version", range(10))
def test_response_in_every_version(version):
    response = JoinResponse(
        error=ErrorCode.NONE,
        member_id="m",
        generation=3,
        protocol_type="consumer",
        protocol="range",
        leader="m",
        skip_assignment=version >= 9,
        members=(JoinedMember(member_id="m", instance_id="s", metadata=b"x"),),
    )
    answer = Exchange(11).decode(join_group.encode(response, version), version)
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 3, "m")
    assert answer.protocol_name == "range"
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    assert answer.skip_assignment == (version >= 9)
    (member,) = answer.members
    assert (member.member_id, member.metadata) == ("m", b"x")
    assert member.group_instance_id == ("s" if version >= 5 else None)
