"""The command line of ranking; tests/spark covers its results, with Spark."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark.__main__ import app


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "--checkpoint is needed"),
        (["--window", "soon"], "--window wants a duration"),
        (["--slide", "2 hours"], "windows of 3600 s every 7200 s leave gaps"),
    ],
)
def test_a_wrong_option_is_one_line_and_code_2(arguments: list[str], told: str):
    result = CliRunner().invoke(app, ["ranking", *arguments])
    assert result.exit_code == 2
    assert result.output.startswith(f"highwater-spark: {told}")
    assert result.output.count("\n") == 1
