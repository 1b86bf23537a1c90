"""Choices are kept until they count, and the log manager follows them."""

from pathlib import Path

import pytest

from highwater.model.ids import TopicId
from highwater.partition.storage.directory.preferred_directories import PreferredDirectories
from highwater.partition.storage.errors import LogDirFailure
from tests.unit.partition.storage.directory.test_log_manager import Node, topic

TOPIC = TopicId(b"t" * 16)


def test_a_choice_counts_once_and_the_last_one_counts() -> None:
    preferred = PreferredDirectories()
    preferred.remember(TOPIC, 0, 1)
    preferred.remember(TOPIC, 1, 1)
    preferred.remember(TOPIC, 0, 2)
    assert [preferred.take(TOPIC, number) for number in (0, 1, 2, 0)] == [2, 1, None, None]
    assert len(preferred) == 0


def test_beyond_the_limit_the_oldest_choice_goes() -> None:
    preferred = PreferredDirectories(limit=2)
    for number in (0, 1, 0, 2):
        preferred.remember(TOPIC, number, 5)
    assert len(preferred) == 2
    assert [preferred.take(TOPIC, number) for number in (0, 1, 2)] == [5, None, 5]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "a", tmp_path / "b", tmp_path / "c")


def test_a_new_log_goes_to_the_chosen_directory_else_to_the_one_with_the_fewest(node: Node) -> None:
    orders = topic()
    for partition in (0, 1, 3):
        node.manager.preferred.remember(orders.topic_id, partition, 1)
    indexes = [node.manager.open_log(orders, partition)[1] for partition in range(4)]
    assert indexes == [1, 1, 0, 1]
    assert node.manager.open_log(orders, 4)[1] == 2
    node.manager.close()


def test_a_choice_does_not_outlive_the_log_that_was_there(node: Node) -> None:
    orders = topic()
    log, index = node.manager.open_log(orders, 0)
    assert index == 0
    node.manager.preferred.remember(orders.topic_id, 0, 2)
    assert node.manager.open_log(orders, 0) == (log, 0)
    node.manager.delete_log(log)
    assert node.manager.open_log(orders, 0)[1] == 0
    node.manager.close()


def test_a_chosen_directory_that_failed_meanwhile_is_not_taken(node: Node, tmp_path: Path) -> None:
    orders = topic()
    node.manager.preferred.remember(orders.topic_id, 0, 1)
    node.manager.fail_dir(1, LogDirFailure(str(tmp_path / "b"), OSError("broken")))
    assert node.manager.open_log(orders, 0)[1] == 0
    node.manager.close()
