"""How streaming jobs begin and end; tests/spark runs them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Self
from unittest.mock import MagicMock

import pytest
import typer

pytest.importorskip("pyspark", reason="needs the spark extra")

from pyspark.errors import StreamingQueryException

from highwater.model.errors import UsageError
from highwater.spark.brokers import TopicPartition, TopicState
from highwater.spark.jobs import stream_command
from highwater.spark.jobs.stream_command import StreamOptions, exit_codes, started
from highwater.spark.page.files import PageFiles
from highwater.spark.stream_errors import RecordsGone
from highwater.spark.stream_source import stream_options
from highwater.spark.tables import TableFormat
from highwater.spark.topic_admin import ClusterAway, TopicIdentity


def options(**more: object) -> StreamOptions:
    given = {
        "bootstrap": "b:1", "topic": "t", "checkpoint": "place", "starting": "earliest",
        "table_format": TableFormat.DELTA, "offsets_per_batch": 1, "every_s": 0, "once": True,
        "json_fields": None, "ahead": "5 minutes", "as_json": False, "files": PageFiles(),
        "quarantine": None, "kafka": (), "jars": None,
    }  # fmt: skip
    return StreamOptions(**given | more)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (UsageError("wrong"), 2, "wrong"),
        (RecordsGone("gone"), 3, "gone"),
        (ClusterAway("away"), 75, "away"),
        (OSError("disk full"), 4, "topic t: disk full"),
        (StreamingQueryException("[X] failed\nmore"), 4, "topic t: [X] failed"),
    ],
)
def test_an_error_is_one_line_and_a_code(
    error: Exception, code: int, told: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(typer.Exit) as ended, exit_codes("t", "b:1"):
        raise error
    assert ended.value.exit_code == code
    assert capsys.readouterr().err == f"highwater-spark: {told}\n"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"starting": "soon"}, "--from wants"),
        ({"json_fields": "speed=x"}, "no field 'speed'"),
        ({"ahead": "a while"}, "--ahead wants a duration"),
        ({"kafka": ("security.protocol",)}, "--kafka wants NAME=VALUE"),
        ({"checkpoint": ""}, "--checkpoint is needed"),
        ({"files": PageFiles(html=Path(__file__) / "page.html")}, "cannot write to directory"),
    ],
)
def test_what_is_wrong_is_told_before_spark_starts(
    more: dict[str, object], told: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stream_command, "open_session", lambda *_, **__: pytest.fail("started"))
    with pytest.raises(UsageError, match=told), started("watch", options(**more)):
        pytest.fail("began")


class LocalFiles:
    """Files of a directory."""

    def __init__(self, _spark: object, root: str) -> None:
        self._root = Path(root)

    def names(self, directory: str = "") -> list[str]:
        place = self._root / directory
        return sorted(each.name for each in place.iterdir()) if place.exists() else []

    def read_text(self, name: str) -> str:
        return (self._root / name).read_text()

    def write_text(self, name: str, text: str) -> None:
        (self._root / name).parent.mkdir(parents=True)
        (self._root / name).write_text(text)

    def move_new(self, directory: str, target: str) -> bool:
        (self._root / directory).rename(self._root / target)
        return True


class GrowingTopic:
    """A topic whose end moves on whenever somebody asks for it; `partitions` may change."""

    def __init__(self) -> None:
        self.partitions = 2
        self.asked = 0

    def __call__(self, *_: object) -> GrowingTopic:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def identify(self, topic: str) -> TopicIdentity:
        return TopicIdentity(cluster_id="c", topic=topic, topic_id="i")

    def topics(self, names: list[str]) -> dict[str, TopicState]:
        return {name: TopicState("i", self.partitions) for name in names}

    def latest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked += 1
        return dict.fromkeys(partitions, 100 * self.asked)


@pytest.fixture
def growing(monkeypatch: pytest.MonkeyPatch) -> GrowingTopic:
    topic = GrowingTopic()
    for name, instead in {
        "open_session": MagicMock(),
        "StopSignals": lambda: SimpleNamespace(asked=lambda: False),
        "StreamTopics": topic,
        "HadoopFiles": LocalFiles,
        "open_table": MagicMock(),
        "of_records": lambda records, _: records,
        "stream_quarantine": MagicMock(unfit=lambda records, *_, **__: records),
        "read_stream": lambda _, source, **__: stream_options(source),
    }.items():
        monkeypatch.setattr(stream_command, name, instead)
    return topic


def beginnings(given: StreamOptions, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where each query of a job begins that is started with these options."""
    found: list[str] = []
    monkeypatch.setattr(
        stream_command,
        "run_together",
        lambda runs, **_: found.extend(frame["startingOffsets"] for _, frame in runs),
    )
    with started("watch", given) as job:
        job.run(job.events(), lambda *_: None, view=lambda _: pytest.fail("no page is wanted"))
    return found


def test_a_job_and_its_quarantine_begin_at_the_same_offsets_whenever_they_start(
    growing: GrowingTopic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    given = options(checkpoint=str(tmp_path), starting="latest", quarantine="bad")
    assert beginnings(given, monkeypatch) == ['{"t": {"0": 100, "1": 100}}'] * 2
    # Killed before the quarantine had begun, and started again when the topic was longer and wider.
    growing.partitions = 3
    assert beginnings(given, monkeypatch) == ['{"t": {"0": 100, "1": 100, "2": 0}}'] * 2


def test_a_quarantine_that_comes_later_begins_at_its_own_first_start(
    growing: GrowingTopic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    given = options(checkpoint=str(tmp_path), starting="latest")
    assert beginnings(given, monkeypatch) == ["latest"]
    later = options(checkpoint=str(tmp_path), starting="latest", quarantine="bad")
    assert beginnings(later, monkeypatch) == ['{"t": {"0": 100, "1": 100}}'] * 2
