"""The job's command line; tests/spark covers its results, with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark.__main__ import app


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
