"""The job's command line; tests/spark covers its results, with Spark."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from pyspark.errors import PySparkException

from highwater.spark.__main__ import app
from highwater.spark.brokers import BrokersAway, TopicMissing
from highwater.spark.jobs import report as module
from highwater.spark.report import Report, from_json
from highwater.spark.report_lines import TableSource
from highwater.spark.tables.port import TableMisfit
from highwater.spark.topic import TopicSource


@pytest.mark.parametrize("name", ["report", "access-log"])
@pytest.mark.parametrize("header", ["run-id", "=a", ""])
def test_an_invalid_header_is_one_line_and_code_2(header: str, name: str, tmp_path: Path) -> None:
    output = tmp_path / "out"
    result = CliRunner().invoke(app, [name, "--header", header, "--output", str(output)])
    assert result.exit_code == 2
    assert result.output == f"highwater-spark: --header wants NAME=VALUE, not {header!r}\n"
    assert not output.exists()


def test_missing_jars_are_one_line_and_code_2(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["report", "--jars", str(tmp_path), "--output", str(tmp_path / "out")]
    )
    assert result.exit_code == 2
    assert result.output.startswith("highwater-spark: no jars of Spark's Kafka connector in ")
    assert result.output.count("\n") == 1


def test_a_number_beyond_the_limits_is_reported() -> None:
    result = CliRunner().invoke(app, ["report", "--top", "0"])
    assert result.exit_code == 2
    assert "'--top'" in result.output


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (TopicMissing("no topic t at b:1"), 2, "no topic t at b:1"),
        (BrokersAway("b:1 does not answer"), 75, "b:1 does not answer"),
        (TableMisfit("x is no Delta table"), 2, "x is no Delta table"),
        (OSError(28, "No space left on device"), 4, "the report cannot be written: [Errno 28] No"),
        (PySparkException("[X] failed\nmore"), 4, "[X] failed"),
    ],
)
def test_what_ends_it_is_one_line_and_a_code(
    error: Exception, code: int, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(module, "open_session", lambda *_, **__: MagicMock())
    monkeypatch.setattr(module, "run", fails)
    result = CliRunner().invoke(app, ["report", "--output", str(tmp_path / "out")])
    assert result.exit_code == code, result.output
    assert result.output.startswith(f"highwater-spark: {told}")
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "source"),
    [
        ([], TopicSource(bootstrap="127.0.0.1:9092", topic="access_log")),
        (
            ["--read-uncommitted", "--kafka", "a=b", "--topic", "t"],
            TopicSource(
                bootstrap="127.0.0.1:9092", topic="t", read_committed=False, kafka={"kafka.a": "b"}
            ),
        ),
        (
            ["--table", "lake/x/", "--header", "a=b"],
            TableSource(
                table="lake/x/", table_format="delta", quarantine="lake/x_quarantine",
                headers={"a": "b"},
            ),
        ),
        (
            ["--table", "x", "--table-format", "iceberg", "--quarantine", "q", "--topic", "t"],
            TableSource(table="x", table_format="iceberg", quarantine="q", topic="t"),
        ),
    ],
)  # fmt: skip
def test_what_is_read_and_the_result_as_json(
    arguments: list[str], source: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    found = Report(topic="t", records=3, unparsed=3, hours=(), top_paths=(), status_codes=())

    def run(_: object, source: object, *__: object, **___: object) -> Report:
        asked.append(source)
        return found

    monkeypatch.setattr(module, "open_session", lambda *_, **__: MagicMock())
    monkeypatch.setattr(module, "run", run)
    result = CliRunner().invoke(app, ["report", "--json", *arguments])
    assert result.exit_code == 0, result.output
    assert asked == [source]
    assert from_json(result.output) == found
    assert result.output.count("\n") == 1


def test_a_directory_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(module, "open_session", lambda *_, **__: MagicMock())
    monkeypatch.setattr(module, "read_lines", lambda *_: MagicMock())
    result = CliRunner().invoke(app, ["report", "--output", str(tmp_path / "file" / "out")])
    assert result.exit_code == 2
    assert result.output.startswith("highwater-spark: cannot write to directory ")
