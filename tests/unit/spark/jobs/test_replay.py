"""The command line of replay; tests/spark covers what reaches a topic."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark", reason="needs the spark extra")
pytest.importorskip("matplotlib", reason="needs the spark extra")

from highwater.spark.__main__ import app
from highwater.spark.jobs.replay import SAMPLE, describe, lines_of
from highwater.spark.replay.sample import read_sample
from highwater.spark.replay.sender import Sent
from highwater.spark.stop_signals import SIGNALS


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--speed", "fast", "--speed wants x100, x1000 or max, not 'fast'"),
        ("--size", "10T", "--size wants 10G or 512M, not '10T'"),
        ("--start", "soon", "--start wants a time in ISO 8601 or now, not 'soon'"),
        ("--kafka", "linger.ms", "--kafka wants NAME=VALUE, not 'linger.ms'"),
        ("--log-file", "none.log", "cannot read none.log: No such file or directory"),
    ],
)
def test_a_wrong_option_is_one_line_and_code_2(option: str, value: str, told: str):
    result = CliRunner().invoke(app, ["replay", option, value])
    assert result.exit_code == 2
    assert result.output == f"highwater-spark: {told}\n"


@pytest.mark.parametrize(
    "arguments", [("--compression", "bogus"), ("--kafka", "linger.ms=soon"), ("--kafka", "x.y=1")]
)
def test_what_the_client_refuses_is_one_line_and_code_2(arguments: tuple[str, str]):
    result = CliRunner().invoke(app, ["replay", *arguments])
    assert result.exit_code == 2, result.output
    assert result.output.startswith("highwater-spark: --compression or --kafka: ")
    assert result.output.count("\n") == 1


def test_a_file_that_is_no_log_is_one_line_and_code_2(tmp_path: Path):
    (tmp_path / "x.log").write_text("garbage\n")
    result = CliRunner().invoke(app, ["replay", "--log-file", str(tmp_path / "x.log")])
    assert result.exit_code == 2
    assert result.output.count("\n") == 1


def test_the_sample_is_sent_whole_once_or_scaled():
    sample = read_sample(SAMPLE.read_text(encoding="utf-8").splitlines(), "sample")
    assert len(sample) == 10_000
    once = list(lines_of(sample, size_bytes=None, seed=0, start_ms=None))
    assert once == list(sample)
    longer = list(lines_of(sample, size_bytes=3 << 20, seed=0, start_ms=None))
    assert 12_000 < len(longer) < 14_000
    moved = next(lines_of(sample, size_bytes=None, seed=0, start_ms=5000))
    assert moved.time_ms == 5000


def test_what_is_told():
    sent = Sent(records=2000, size_bytes=300_000, time_ms=1_431_857_103_000, elapsed_s=4.0)
    assert describe(sent) == (
        "2,000 records, 300,000 bytes, 500 rows/s, log at 2015-05-17 10:05:03"
    )
    assert describe(Sent(records=0, size_bytes=0, time_ms=None, elapsed_s=0.0)).endswith("at -")
