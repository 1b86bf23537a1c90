import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.heartbeat import HeartbeatRequest
from highwater.partition.groups.handlers import heartbeat
from tests.unit.partition.groups.handlers.exchange import Exchange


@pytest.mark.parametrize("version", range(5))
def test_every_version(version):
    x = Exchange(12)
    leader, _ = x.d.stable_pair()

    def beat(generation, **fields):
        message = HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=leader, **fields
        )
        body = heartbeat.handle(x.d.shard, x.call(message, version), x.d.moment)
        return x.decode(body, version).error_code

    assert beat(1) == ErrorCode.NONE
    assert beat(2) == ErrorCode.ILLEGAL_GENERATION
    if version >= 3:
        assert beat(1, group_instance_id="s") == ErrorCode.UNKNOWN_MEMBER_ID


def test_equal_answers_are_encoded_once():
    assert heartbeat.encode(0, 4) is heartbeat.encode(0, 4)
    assert heartbeat.encode(0, 4) != heartbeat.encode(27, 4)
