"""What an image says about logs; see also test_log_manager."""

from dataclasses import replace

from highwater.model.ids import LeaderEpoch, NodeId, TopicId
from highwater.partition.storage.directory.assigned_logs import is_new, is_stray
from tests.unit.partition.storage.directory.test_log_manager import image, placed


def test_a_log_is_new_until_its_partition_has_changed() -> None:
    topic = placed("t", 1, replicas=((3,),))
    assert is_new(topic, 0)
    assert not is_new(topic, 1), "nothing is known of it"
    (state,) = topic.partitions
    for changed in (replace(state, leader_epoch=LeaderEpoch(1)), replace(state, partition_epoch=1)):
        assert not is_new(replace(topic, partitions=(changed,)), 0)


def test_a_log_is_stray_without_a_replica_here() -> None:
    topic = placed("t", 1, replicas=((3,),))
    here = image(topic)
    assert not is_stray(topic.topic_id, 0, here, NodeId(3))
    assert is_stray(topic.topic_id, 0, here, NodeId(4))
    assert is_stray(topic.topic_id, 1, here, NodeId(3))
    assert is_stray(TopicId(bytes([9]) * 16), 0, here, NodeId(3))
