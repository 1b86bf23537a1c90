import pytest

from highwater.model.ids import DEFAULT_INSTANCE, InstanceId, TopicId
from highwater.partition.storage import names


def test_offset_files() -> None:
    assert names.offset_file(8192, ".log") == "00000000000000008192.log"
    assert names.parse_offset_file("00000000000000008192.log", ".log") == 8192
    for other in ("8192.log", "00000000000000008192.index", "0000000000000000819x.log",
                  "00000000000000008192.log.deleted", "0000000000000000819\u0662.log"):  # fmt: skip
        assert names.parse_offset_file(other, ".log") is None


@pytest.mark.parametrize("first", [0, 62, 0xF8, 0xFF])
def test_topic_ids(first: int) -> None:
    topic_id = TopicId(bytes([first]) * 16)
    text = names.topic_id_text(topic_id)
    assert len(text) == 22
    assert names.parse_topic_id(text) == topic_id
    with pytest.raises(ValueError):
        names.parse_topic_id(text[:-4])


def test_partition_directories() -> None:
    topic_id = TopicId(bytes([0xF8]) * 16)
    name = names.partition_directory("my-topic", 3, topic_id=topic_id, instance=DEFAULT_INSTANCE)
    assert name == "my-topic-3"
    assert names.parse_partition_directory(name) == ("my-topic", 3)
    name = names.partition_directory("t", 3, topic_id=topic_id, instance=InstanceId("tenant"))
    assert names.parse_partition_directory(name) == (names.topic_id_text(topic_id), 3)
    for other in ("topic", "topic-", "-3", "topic-x", "topic-3.0-delete"):
        assert names.parse_partition_directory(other) is None


def test_deleted_directories_keep_to_the_length_of_a_file_name() -> None:
    assert names.deleted_directory("t-0", "ab") == "t-0.ab-delete"
    name = names.deleted_directory("t" * 249 + "-10000", "0" * 32)
    assert len(name) == 255
    assert name.endswith("." + "0" * 32 + "-delete")


def test_directories_of_moves() -> None:
    token = "0a" * 16
    future = names.future_directory("my.topic-3", token)
    assert future == f"my.topic-3.{token}-future"
    assert names.parse_future_directory(future) == ("my.topic-3", token)
    moved = names.moved_directory("my.topic-3", token)
    assert names.parse_moved_directory(moved) == ("my.topic-3", token)
    for other in ("my.topic-3", moved, f"t-0.{token[1:]}-future", f"t-0.{token}-delete"):
        assert names.parse_future_directory(other) is None
    assert names.parse_moved_directory(future) is None
    assert names.parse_partition_directory(future) is None
    assert names.future_directory("t" * 214 + "-0", token) is None, "it would be too long"
    longest = names.future_directory("t" * 213 + "-0", token)
    assert longest is not None
    assert len(longest) == 255
