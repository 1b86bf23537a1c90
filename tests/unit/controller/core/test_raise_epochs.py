"""Leader epochs grow after the store lost changes."""

from dataclasses import replace

from highwater.controller.core.raise_epochs import raise_epochs
from tests.support.controller_images import image_with, topic_state


def test_all_epochs_grow_and_nothing_else_changes() -> None:
    before = image_with(3, topics=[topic_state("a", [(1, 2), (2, 3)]), topic_state("b", [(3,)])])
    delta = raise_epochs(before, 40)
    after = before.apply(replace(delta, revision=before.revision + 1))
    for topic in before.topics.values():
        for was, now in zip(topic.partitions, after.topics[topic.topic_id].partitions, strict=True):
            assert now == replace(
                was, leader_epoch=was.leader_epoch + 40, partition_epoch=was.partition_epoch + 40
            )
