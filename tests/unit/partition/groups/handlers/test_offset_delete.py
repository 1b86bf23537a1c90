from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestOffsetDeleteRequestPartition,
    OffsetDeleteRequestOffsetDeleteRequestTopic,
)
from highwater.partition.groups.handlers import offset_delete
from tests.unit.partition.groups.handlers.exchange import Exchange


def test_deletion_and_refusal():
    x = Exchange(47)
    partitions = [
        OffsetDeleteRequestOffsetDeleteRequestPartition(partition_index=n) for n in (0, 1)
    ]
    message = OffsetDeleteRequest(
        group_id="g",
        topics=[OffsetDeleteRequestOffsetDeleteRequestTopic(name="t", partitions=partitions)],
    )

    def delete():
        body = offset_delete.handle(x.d.shard, x.call(message, 0), x.d.moment)
        return x.decode(body, 0)

    refused = delete()
    assert (refused.error_code, list(refused.topics)) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    x.d.commit({("t", 0): 1, ("u", 0): 2})
    answer = delete()
    assert answer.error_code == 0
    (topic,) = answer.topics
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [(0, 0), (1, 0)]
    assert (x.d.committed("t", 0), x.d.committed("u", 0)) == (None, 2)
