from pathlib import Path

import pytest

from highwater.model.ids import TopicId
from highwater.partition.storage import checkpoint
from highwater.partition.storage.errors import CorruptCheckpointError
from highwater.partition.storage.filesystem import FileSystem

FILES = FileSystem()


def test_offsets_as_kafka_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "c"
    offsets = {("a.b-c", 0): 5, ("x", 12): 2**40}
    checkpoint.write_offsets(FILES, str(path), offsets, durable=True)
    assert path.read_text() == "0\n2\na.b-c 0 5\nx 12 1099511627776\n"
    assert checkpoint.read_offsets(FILES, str(path)) == offsets
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_missing_and_empty_files_hold_nothing(tmp_path: Path) -> None:
    path = tmp_path / "c"
    assert checkpoint.read_offsets(FILES, str(path)) == {}
    assert checkpoint.read_epochs(FILES, str(path)) is None
    assert checkpoint.read_topic_id(FILES, str(path)) is None
    path.write_text("")
    assert checkpoint.read_offsets(FILES, str(path)) == {}
    assert checkpoint.read_topic_id(FILES, str(path)) is None


def test_epochs(tmp_path: Path) -> None:
    path = tmp_path / "c"
    checkpoint.write_epochs(FILES, str(path), [(0, 0), (3, 8192)], durable=False)
    assert path.read_text() == "0\n2\n0 0\n3 8192\n"
    assert checkpoint.read_epochs(FILES, str(path)) == [(0, 0), (3, 8192)]


@pytest.mark.parametrize(
    "text",
    ["1\n0\n", "0\n", "0\n1\n", "0\n1\na 0 5\nb 0 6\n", "0\n1\na 0\n", "0\n1\na 0 -5\n",
     "0\n1\na 0 x\n", "x\n0\n", "0\n1\na 0 5", "\0\0\0\0", "0\n\u0661\na 0 5\n"],
)  # fmt: skip
def test_invalid_checkpoints(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c"
    path.write_text(text)
    if text == "0\n1\na 0 5":
        assert checkpoint.read_offsets(FILES, str(path)) == {("a", 0): 5}
        return
    with pytest.raises(CorruptCheckpointError):
        checkpoint.read_offsets(FILES, str(path))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(b"0\n1\n\xff 0 1\n")
    with pytest.raises(CorruptCheckpointError):
        checkpoint.read_offsets(FILES, str(path))


def test_topic_id(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    topic_id = TopicId(bytes(range(16)))
    checkpoint.write_topic_id(FILES, str(path), topic_id)
    assert path.read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert checkpoint.read_topic_id(FILES, str(path)) == topic_id


@pytest.mark.parametrize(
    "text",
    [
        "\n",
        "version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        "version: 0\ntopic_id: AA",
        "version: 0\n",
    ],
)
def test_invalid_partition_metadata(tmp_path: Path, text: str) -> None:
    path = tmp_path / "partition.metadata"
    path.write_text(text)
    with pytest.raises(CorruptCheckpointError):
        checkpoint.read_topic_id(FILES, str(path))
