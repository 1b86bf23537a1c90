"""DescribeLoggers and AlterLoggers, on a real logger."""

import io
import json

import pytest

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.partition.node.loggers import LoggerQueries
from highwater.runtime.logging import LogSettings, make_logger, silent_logger


class World:
    def __init__(self):
        self.out = io.StringIO()
        root = make_logger(LogSettings(format="json"), stream=self.out)
        self.log, self.gateway = root.bind(service="partition"), root.bind(service="gateway")
        self.queries = LoggerQueries(self.log)

    @property
    def levels(self):
        return dict(self.queries.describe().levels)

    def alter(self, *changes, validate_only=False):
        wanted = [pb.LoggerChange(logger=name, level=level) for name, level in changes]
        answer = self.queries.alter(
            pb.AlterLoggersRequest(changes=wanted, validate_only=validate_only)
        )
        return answer.error_code, answer.message

    def events(self):
        lines = [json.loads(line)["event"] for line in self.out.getvalue().splitlines()]
        self.out.truncate(0)
        self.out.seek(0)
        return lines


def test_levels_are_those_of_the_services_of_the_process():
    world = World()
    assert world.levels == {"gateway": "INFO", "partition": "INFO", "root": "INFO"}
    assert dict(LoggerQueries(silent_logger()).describe().levels) == {"root": "INFO"}


def test_a_change_holds_at_once_and_until_it_is_deleted():
    world = World()
    assert world.alter(("gateway", "ERROR"), ("partition", "DEBUG")) == (0, "")
    assert world.events() == ["log_level_changed"] * 2
    world.gateway.warning("unseen")
    world.log.debug("seen")
    assert world.events() == ["seen"]
    assert world.alter(("gateway", None)) == (0, "")
    world.gateway.info("again")
    assert world.events() == ["log_level_changed", "again"]
    assert world.levels == {"gateway": "INFO", "partition": "DEBUG", "root": "INFO"}


@pytest.mark.parametrize(
    ("change", "code", "why"),
    [
        (("nobody", "INFO"), ErrorCode.INVALID_CONFIG, "Logger nobody does not exist!"),
        (("nobody", None), ErrorCode.INVALID_CONFIG, "Logger nobody does not exist!"),
        (
            ("root", "info"),
            ErrorCode.INVALID_CONFIG,
            "root to info as it is not a supported log level. Valid log levels are DEBUG, ERROR, ",
        ),
        (("gateway", ""), ErrorCode.INVALID_CONFIG, "not a supported log level"),
        (("root", None), ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger"),
    ],
)
def test_one_refused_change_refuses_all(change, code, why):
    world = World()
    refused, message = world.alter(("partition", "TRACE"), change)
    assert refused == code
    assert why in message
    assert set(world.levels.values()) == {"INFO"}


def test_a_check_changes_nothing():
    world = World()
    assert world.alter(("root", "FATAL"), validate_only=True) == (0, "")
    assert set(world.levels.values()) == {"INFO"}
