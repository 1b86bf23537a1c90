"""Answers DescribeLoggers and AlterLoggers: the levels of this process's loggers (KIP-412).

Checks are those of Kafka's RuntimeLoggerManager. As in Kafka levels are not kept over a restart.
"""

from collections.abc import Iterable

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.kafka.error_codes import ErrorCode
from highwater.runtime.log_levels import ROOT, SEVERITIES
from highwater.runtime.logging import Logger, levels_of


class LoggerQueries:
    """On the node's loop, as long as the node. All services of the process share the levels."""

    def __init__(self, log: Logger) -> None:
        self._levels = levels_of(log)
        self._log = log

    def describe(self) -> pb.DescribeLoggersResponse:
        """All loggers."""
        return pb.DescribeLoggersResponse(levels=self._levels.all())

    def alter(self, request: pb.AlterLoggersRequest) -> pb.AlterLoggersResponse:
        """Changes all or, if one change is refused or none is wanted, nothing."""
        refusal = self._refusal(request.changes)
        if refusal is not None:
            return refusal
        if not request.validate_only:
            for change in request.changes:
                self._change(change)
        return pb.AlterLoggersResponse()

    def _change(self, change: pb.LoggerChange) -> None:
        if change.HasField("level"):
            self._levels.set(change.logger, change.level)
        else:
            self._levels.unset(change.logger)
        level = self._levels.all()[change.logger]
        self._log.warning("log_level_changed", logger_name=change.logger, level_name=level)

    def _refusal(self, changes: Iterable[pb.LoggerChange]) -> pb.AlterLoggersResponse | None:
        for change in changes:
            name, level = change.logger, change.level
            if not self._levels.knows(name):
                return _refused(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
            if not change.HasField("level"):
                if name == ROOT:
                    why = f"Removing the log level of the {ROOT} logger is not allowed"
                    return _refused(ErrorCode.INVALID_REQUEST, why)
            elif level not in SEVERITIES:
                why = (
                    f"Cannot set the log level of {name} to {level} as it is not a supported log "
                    f"level. Valid log levels are {', '.join(sorted(SEVERITIES))}"
                )
                return _refused(ErrorCode.INVALID_CONFIG, why)
        return None


def _refused(code: ErrorCode, message: str) -> pb.AlterLoggersResponse:
    return pb.AlterLoggersResponse(error_code=code, message=message)
