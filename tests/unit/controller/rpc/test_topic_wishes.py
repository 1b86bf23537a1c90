"""New and growing topics as messages."""

from highwater.api.controller.v1 import controller_service_pb2 as pb
from highwater.controller.core.change_topics import Growth
from highwater.controller.core.create_topics import TopicWish
from highwater.controller.rpc.topic_wishes import growth, topic_wish
from highwater.model.ids import TopicId

ASSIGNED = [pb.Assignment(partition=1, replicas=[3, 2])]


def test_a_new_topic() -> None:
    message = pb.NewTopic(
        name="t",
        partitions=4,
        replication_factor=2,
        assignments=ASSIGNED,
        configs={"a": "1"},
        internal=True,
    )
    assert topic_wish(message) == TopicWish(
        name="t",
        partitions=4,
        replication_factor=2,
        assignments=((1, (3, 2)),),
        configs={"a": "1"},
        internal=True,
    )


def test_a_growing_topic() -> None:
    message = pb.TopicGrowth(topic_id=b"t" * 16, count=5, assignments=ASSIGNED)
    assert growth(message) == Growth(
        topic_id=TopicId(b"t" * 16), count=5, assignments=((1, (3, 2)),)
    )
