"""How streaming jobs begin and end; tests/spark runs them."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

pytest.importorskip("pyspark", reason="needs the spark extra")

from pyspark.errors import StreamingQueryException

from highwater.model.errors import UsageError
from highwater.spark.jobs.stream_command import StreamOptions, exit_codes, started
from highwater.spark.page.files import PageFiles
from highwater.spark.stream_errors import RecordsGone
from highwater.spark.tables import TableFormat
from highwater.spark.topic_admin import ClusterAway


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
    from highwater.spark.jobs import stream_command

    monkeypatch.setattr(stream_command, "open_session", lambda *_, **__: pytest.fail("started"))
    with pytest.raises(UsageError, match=told), started("watch", options(**more)):
        pytest.fail("began")
