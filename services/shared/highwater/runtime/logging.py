"""Structured logs: JSON lines in containers, coloured lines on a terminal.

There is no global logger: `make_logger` builds one from plain arguments and services get it as a
constructor argument with their context already bound (`service`, `node`, `instance`, `topic`,
`partition`, `leader_epoch`), so two nodes in one process do not mix. Event names are constant
snake_case strings; variable values go into the fields.
"""

import logging
import sys
from typing import Any, Final, Literal, TextIO, cast

from pydantic import Field

from highwater.runtime.settings import SettingsGroup

# structlog loads rich, if installed, for coloured tracebacks: measured, a sixth of a broker's start.
# While rich is hidden, structlog sets up plain tracebacks.
_HIDE_RICH: Final = "rich" not in sys.modules
if _HIDE_RICH:
    sys.modules["rich"] = None  # type: ignore[assignment]
try:
    import structlog
    from structlog.typing import FilteringBoundLogger, Processor
finally:
    if _HIDE_RICH:
        del sys.modules["rich"]

Logger = FilteringBoundLogger
"""The type for annotations."""

LogFormat = Literal["auto", "json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


class LogSettings(SettingsGroup):
    """How a process writes its logs."""

    format: LogFormat = Field(
        default="auto", description="json, console, or auto: console on a terminal"
    )
    level: LogLevel = Field(default="info", description="least severe level that is written")


def make_logger(
    settings: LogSettings | None = None, *, stream: TextIO | None = None, **context: Any
) -> Logger:
    """A logger that writes to `stream` (standard error by default) with `context` bound."""
    chosen = settings or LogSettings()
    out = stream if stream is not None else sys.stderr
    console = chosen.format == "console" or (chosen.format == "auto" and out.isatty())
    logger = structlog.wrap_logger(
        structlog.WriteLogger(out),
        processors=_processors(console=console, colors=console and out.isatty()),
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[chosen.level]),
        context_class=dict,
        cache_logger_on_first_use=False,
    ).bind(**context)
    return cast(Logger, logger)


def silent_logger() -> Logger:
    """A logger that drops everything; for tests and tools that print their own report."""
    logger = structlog.wrap_logger(
        structlog.ReturnLogger(),
        processors=[_drop],
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
    ).bind()
    return cast(Logger, logger)


def forward_standard_logging(logger: Logger, *, level: int = logging.WARNING) -> None:
    """Sends what libraries log through the standard module (asyncio, grpc) to `logger`.

    Process-wide, so only a process's entry point calls it. Replaces former handlers.
    """
    root = logging.getLogger()
    root.handlers[:] = [_Forwarder(logger)]
    root.setLevel(level)


class _Forwarder(logging.Handler):
    """Turns standard log records into events named `library_log`."""

    def __init__(self, logger: Logger) -> None:
        super().__init__()
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record; a record that cannot be formatted is reported by the module."""
        try:
            self._logger.log(
                record.levelno,
                "library_log",
                library=record.name,
                message=record.getMessage(),
                exc_info=record.exc_info,
            )
        except Exception:  # noqa: BLE001 - the module's contract: emit never raises.
            self.handleError(record)


def _processors(*, console: bool, colors: bool) -> list[Processor]:
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if console:
        return [
            *shared,
            structlog.dev.ConsoleRenderer(colors=colors),
        ]
    return [
        *shared,
        structlog.processors.format_exc_info,
        structlog.processors.UnicodeDecoder(),
        structlog.processors.JSONRenderer(default=str),
    ]


def _drop(_logger: Any, _method: str, _event: Any) -> Any:
    raise structlog.DropEvent
