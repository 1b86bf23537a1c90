import io
import json
import logging

import pytest

from highwater.runtime.logging import (
    LogSettings,
    forward_standard_logging,
    levels_of,
    make_logger,
    silent_logger,
)


def test_json_lines_carry_event_level_and_bound_context():
    out = io.StringIO()
    log = make_logger(LogSettings(), stream=out, service="partition", node=3)
    log.bind(topic="orders").warning("segment_rolled", base_offset=7)
    line = json.loads(out.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "segment_rolled",
        "level": "warning",
        "service": "partition",
        "node": 3,
        "topic": "orders",
        "base_offset": 7,
    }


def test_level_filters_and_loggers_do_not_share_context():
    out = io.StringIO()
    one = make_logger(LogSettings(level="warning"), stream=out, node=1)
    two = make_logger(LogSettings(), stream=out, node=2)
    one.info("unseen")
    two.info("seen")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["event"], line["node"]) for line in lines] == [("seen", 2)]


@pytest.mark.parametrize("form", ["console", "json"])
def test_nothing_that_clients_sent_moves_the_cursor(form):
    out = io.StringIO()
    log = make_logger(LogSettings(format=form), stream=out)
    evil = "x\r\n\x1b[2J\x9b1m\x0b\u2028\x07\u202e\ud800 y"
    log.warning("seen", client=evil, clients=[evil], users={evil: evil}, mechanism=evil)
    line = out.getvalue()
    assert line.isascii()
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    log.error("failed", exc_info=ValueError(evil.replace("\ud800", "")))
    assert all(one.isprintable() for one in out.getvalue().split("\n"))


def written(out):
    return [json.loads(line)["event"] for line in out.getvalue().splitlines()]


def test_levels_can_be_changed_for_loggers_that_exist():
    out = io.StringIO()
    process = make_logger(LogSettings(level="warning", format="json"), stream=out)
    gateway = process.bind(service="gateway").bind(topic="orders")
    levels = levels_of(gateway)
    assert levels is levels_of(process)
    assert levels.all() == {"gateway": "WARN", "root": "WARN"}
    process.info("process-1")
    gateway.info("gateway-1")
    levels.set("gateway", "DEBUG")
    process.info("process-2")
    gateway.debug("gateway-2")
    levels.set("root", "FATAL")
    process.error("process-3")
    process.critical("process-4")
    gateway.log(logging.INFO, "gateway-3")
    levels.set("gateway", "ERROR")
    gateway.warning("gateway-4")
    gateway.exception("gateway-5", exc_info=ValueError())
    assert written(out) == ["gateway-2", "process-4", "gateway-3", "gateway-5"]


def test_processes_do_not_share_levels():
    out = io.StringIO()
    one, two = (make_logger(LogSettings(format="json"), stream=out, service="x") for _ in "ab")
    levels_of(one).set("x", "ERROR")
    one.info("unseen")
    two.info("seen")
    assert written(out) == ["seen"]


def test_a_silent_logger_has_levels_without_effect(capsys):
    levels_of(silent_logger()).set("root", "TRACE")
    assert levels_of(silent_logger()).all() == {"root": "INFO"}
    silent_logger().error("unseen")
    assert capsys.readouterr() == ("", "")


def test_console_format_is_for_people():
    out = io.StringIO()
    make_logger(LogSettings(format="console"), stream=out).info("started", port=9092)
    assert "started" in out.getvalue()
    assert "port=9092" in out.getvalue()
    assert not out.getvalue().startswith("{")


def test_exceptions_are_written_with_their_traceback():
    out = io.StringIO()
    log = make_logger(LogSettings(format="json"), stream=out)
    log.error("failed", exc_info=ValueError("why"))
    assert "ValueError: why" in json.loads(out.getvalue())["exception"]


def test_silent_logger_drops_everything(capsys):
    silent_logger().error("unseen")
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def restored_root():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("restored_root")
def test_standard_logging_is_forwarded():
    out = io.StringIO()
    forward_standard_logging(make_logger(LogSettings(), stream=out))
    logging.getLogger("asyncio").warning("slow callback %s", "f")
    line = json.loads(out.getvalue())
    assert (line["event"], line["library"], line["message"]) == (
        "library_log",
        "asyncio",
        "slow callback f",
    )
