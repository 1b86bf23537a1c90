"""The demo's checks fail when they should, and its small parts do what they say."""

from __future__ import annotations

import dataclasses
import io
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from highwater.spark.report import HourTraffic, PathTraffic, Report, StatusCount
from tools.demo import checks
from tools.demo.broker import Broker, is_free
from tools.demo.consuming import ReadBack
from tools.demo.errors import UsageError
from tools.demo.options import parse_options
from tools.demo.producing import Acknowledged
from tools.demo.screen import Screen, sparkline
from tools.demo.story import read_lines, serve

LINES = [b"a", b"b", b"c", b"b"]


def acknowledged() -> Acknowledged:
    """Lines 0, 2 and 3 in partition 0 behind an older record, line 1 in partition 1."""
    return Acknowledged(by_partition={0: [(1, 0), (2, 2), (3, 3)], 1: [(0, 1)]})


def read_back() -> ReadBack:
    return ReadBack(
        by_partition={0: [(1, b"a"), (2, b"c"), (3, b"b")], 1: [(0, b"b")]},
        others=1,
        committed={0: 4, 1: 1},
    )


def test_all_is_well() -> None:
    sent, read = acknowledged(), read_back()
    assert sent.end_offsets() == {0: 4, 1: 1}
    for check in (
        checks.check_acknowledged(LINES, sent),
        checks.check_count(LINES, read),
        checks.check_content(LINES, sent, read),
        checks.check_committed(sent.end_offsets(), read),
    ):
        assert check.holds, check
    assert "4 of 4" in checks.check_count(LINES, read).found


@pytest.mark.parametrize(
    "records",
    [
        [(1, 0), (2, 2)],
        [(1, 0), (2, 2), (3, 2)],
        [(1, 0), (2, 2), (3, 3), (4, 3)],
        [(1, 0), (3, 2), (2, 3)],
        [(1, 0), (2, 2), (2, 3)],
    ],
    ids=["lost", "another twice", "twice", "out of order", "same offset"],
)
def test_acknowledgements_that_are_wrong(records: list[tuple[int, int]]) -> None:
    sent = Acknowledged(by_partition={0: records, 1: [(0, 1)]})
    assert not checks.check_acknowledged(LINES, sent).holds


@pytest.mark.parametrize(
    "records",
    [
        [(1, b"a"), (2, b"c")],
        [(1, b"a"), (2, b"c"), (3, b"x")],
        [(1, b"a"), (2, b"b"), (3, b"c")],
        [(1, b"a"), (2, b"c"), (3, b"b"), (3, b"b")],
        [(0, b"a"), (2, b"c"), (3, b"b")],
    ],
    ids=["lost", "changed", "swapped", "twice", "moved"],
)
def test_content_that_is_wrong(records: list[tuple[int, bytes]]) -> None:
    read = dataclasses.replace(read_back(), by_partition={0: records, 1: [(0, b"b")]})
    assert not checks.check_content(LINES, acknowledged(), read).holds


def test_content_in_another_partition_is_wrong() -> None:
    records = read_back().by_partition
    read = dataclasses.replace(read_back(), by_partition={0: records[0], 2: records[1]})
    assert not checks.check_content(LINES, acknowledged(), read).holds


def test_a_record_less_or_more_is_counted() -> None:
    assert not checks.check_count(LINES[:-1], read_back()).holds
    assert not checks.check_count([*LINES, b"d"], read_back()).holds


@pytest.mark.parametrize("committed", [{}, {0: 4}, {0: 3, 1: 1}, {0: 4, 1: -1001}])
def test_commits_that_are_behind(committed: dict[int, int]) -> None:
    read = dataclasses.replace(read_back(), committed=committed)
    assert not checks.check_committed(acknowledged().end_offsets(), read).holds


def counted() -> Report:
    lines = [
        b'h - - [01/Jan/2024:23:59:00 +0000] "GET /b?q HTTP/1.1" 200 10 "-" "-"',
        b'h - - [02/Jan/2024:00:30:00 +0100] "GET /a HTTP/1.1" 404 - "-" "-"',
        b'h - - [02/Jan/2024:00:00:00 +0000] "GET /b HTTP/1.1" 200 7 "-" "-"',
        b'h - - [02/Jan/2024:00:10:00 +0000] "GET /c HTTP/1.1" 500 0 "-" "-"',
        b"\xff",
    ]
    return checks.count_file(lines, "t", top_paths=2)


def test_the_file_is_counted() -> None:
    assert counted() == Report(
        topic="t",
        records=5,
        unparsed=1,
        hours=(
            HourTraffic(
                start=datetime(2024, 1, 1, 23, tzinfo=UTC),
                requests=2,
                size_bytes=10,
                client_errors=1,
                server_errors=0,
            ),
            HourTraffic(
                start=datetime(2024, 1, 2, 0, tzinfo=UTC),
                requests=2,
                size_bytes=7,
                client_errors=0,
                server_errors=1,
            ),
        ),
        top_paths=(
            PathTraffic(path="/b", requests=2, size_bytes=17),
            PathTraffic(path="/a", requests=1, size_bytes=0),
        ),
        status_codes=(
            StatusCount(status=200, requests=2),
            StatusCount(status=404, requests=1),
            StatusCount(status=500, requests=1),
        ),
    )


@pytest.mark.parametrize("part", ["records", "unparsed", "hours", "top_paths", "status_codes"])
def test_a_report_that_differs_is_named(part: str) -> None:
    right = counted()
    assert checks.check_report(right, right).holds
    value = getattr(right, part)
    wrong = dataclasses.replace(right, **{part: value[:-1] if type(value) is tuple else value + 1})
    check = checks.check_report(right, wrong)
    assert not check.holds
    assert part in check.found


@pytest.mark.parametrize(
    ("rows", "places", "holds"), [(4, 4, True), (3, 3, False), (5, 4, False), (4, 3, False)]
)
def test_rows_of_a_table(rows: int, places: int, holds: bool) -> None:
    """One of the five lines is not in the format, and in quarantine."""
    check = checks.check_loaded(counted(), {"rows": rows, "places": places})
    assert check.holds == holds
    assert ("doubled" in check.found) == (rows != places)


@pytest.mark.parametrize(
    ("records", "different", "holds"), [(4, [], True), (4, [{"hour": 0}], False), (0, [], False)]
)
def test_a_table_that_differs_from_the_log(
    records: int, different: list[object], holds: bool
) -> None:
    assert checks.check_audit({"records": records, "different": different}).holds == holds


def test_sparkline() -> None:
    assert sparkline([], 10) == ""
    assert sparkline([0, 0], 10) == "▁▁"
    assert sparkline([1, 4, 8], 10) == "▁▄█"
    assert sparkline([1, 1, 4, 4, 8], 3) == "▂██"


def test_options_come_from_the_command_line_then_the_environment() -> None:
    assert parse_options([], {}).address == "127.0.0.1:9092"
    environment = {"PORT": "9192", "DATA": "/data"}
    options = parse_options(["--data-dir", "/other"], environment)
    assert (options.port, options.data_dir, options.once) == (9192, Path("/other"), False)
    foreign = parse_options(["--bootstrap", "h:1"], environment)
    assert (foreign.address, foreign.once) == ("h:1", True)


@pytest.mark.parametrize("port", ["0", "65536", "nine", ""])
def test_a_port_that_is_none(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse_options([], {"PORT": port})
    assert caught.value.code == 2
    assert "not a port" in capsys.readouterr().err


def test_a_port_is_free_until_somebody_listens() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert not is_free("127.0.0.1", port)
    assert is_free("127.0.0.1", port)
    with pytest.raises(UsageError, match="cannot listen"):
        is_free("192.0.2.1", port)


def test_a_log_that_is_missing_or_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name in ("empty", "missing"):
        with pytest.raises(UsageError, match=name):
            read_lines(tmp_path / name)


def test_ctrl_c_while_it_says_how_to_connect_is_the_ordinary_end(tmp_path: Path) -> None:
    class Interrupted(io.StringIO):
        times = 0

        def write(self, text: str) -> int:
            if "Any Kafka client" in text and not self.times:
                self.times += 1
                raise KeyboardInterrupt
            return super().write(text)

    shown = Interrupted()
    broker = Broker(host="127.0.0.1", port=1, data_dir=tmp_path, log_path=tmp_path / "broker.log")
    serve(parse_options([], {}), Screen(Console(file=shown)), broker)
    assert shown.times == 1
    assert "Stopping" in shown.getvalue()
