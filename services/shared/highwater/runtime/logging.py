"""Structured logs: JSON lines in containers, coloured lines on a terminal.

There is no global logger: `make_logger` builds one from plain arguments and services get it as a
constructor argument with their context already bound (`service`, `node`, `instance`, `topic`,
`partition`, `leader_epoch`), so two nodes in one process do not mix. Event names are constant
snake_case strings; variable values go into the fields.

Levels can be changed while the process runs, for each service and for all (`levels_of`). So every
event is made before it is dropped: events below the level are few.
"""

import io
import logging
import sys
from typing import Any, Final, Literal, TextIO, cast

from pydantic import Field

from highwater.runtime.log_levels import LogLevels
from highwater.runtime.settings import SettingsGroup

# structlog loads rich, if installed, for coloured tracebacks: measured, a sixth of a broker's start.
# While rich is hidden, structlog sets up plain tracebacks.
_HIDE_RICH: Final = "rich" not in sys.modules
if _HIDE_RICH:
    sys.modules["rich"] = None  # type: ignore[assignment]
try:
    import structlog
    from structlog.typing import BindableLogger, EventDict, FilteringBoundLogger, Processor
finally:
    if _HIDE_RICH:
        del sys.modules["rich"]

Logger = FilteringBoundLogger
"""The type for annotations."""

LogFormat = Literal["auto", "json", "console"]
LogLevel = Literal["debug", "info", "warning", "error"]

_LEVELS: Final = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR"}
"""The levels of the settings by Kafka's names."""

_SEVERITIES: Final = {
    "notset": logging.NOTSET,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
"""By structlog's names of methods."""


class LogSettings(SettingsGroup):
    """How a process writes its logs."""

    format: LogFormat = Field(
        default="auto", description="json, console, or auto: console on a terminal"
    )
    level: LogLevel = Field(default="info", description="least severe level that is written")


def make_logger(
    settings: LogSettings | None = None, *, stream: TextIO | None = None, **context: Any
) -> Logger:
    """A logger that writes to `stream` (standard error by default) with `context` bound.

    Loggers that are bound from it share its levels.
    """
    chosen = settings or LogSettings()
    out = stream if stream is not None else sys.stderr
    console = chosen.format == "console" or (chosen.format == "auto" and out.isatty())
    levels = LogLevels(_LEVELS[chosen.level])
    logger = structlog.wrap_logger(
        structlog.WriteLogger(out),
        processors=[
            _level_filter(levels),
            *_processors(console=console, colors=console and out.isatty()),
        ],
        wrapper_class=_leveled(levels),
        context_class=dict,
        cache_logger_on_first_use=False,
    ).bind(**context)
    return cast(Logger, logger)


def levels_of(logger: Logger) -> LogLevels:
    """The levels of a logger of `make_logger`; of another one, levels without effect."""
    levels = getattr(logger, "levels", None)
    return levels if isinstance(levels, LogLevels) else LogLevels()


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
            _only_printable,
            structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=_write_traceback),
        ]
    return [
        *shared,
        structlog.processors.format_exc_info,
        structlog.processors.UnicodeDecoder(),
        structlog.processors.JSONRenderer(default=str),
    ]


def _only_printable(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """A terminal obeys control characters, and some of what is logged comes from clients.

    Values that are no strings are written as `repr`, which has none.
    """
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = _escaped(value)
    return event


def _write_traceback(out: TextIO, exc_info: Any) -> None:
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    out.write("\n".join(_escaped(line) for line in text.getvalue().split("\n")))


def _escaped(text: str) -> str:
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _leveled(levels: LogLevels) -> type[BindableLogger]:
    """A class of loggers that all know these levels, and add their services to them."""
    base = structlog.make_filtering_bound_logger(logging.NOTSET)

    def bind(self: Any, **new_values: Any) -> Any:
        service = new_values.get("service")
        if service is not None:
            levels.add(service)
        return base.bind(self, **new_values)

    made = type("LeveledLogger", (base,), {"bind": bind, "levels": levels})
    return cast("type[BindableLogger]", made)


def _level_filter(levels: LogLevels) -> Processor:
    def written(_logger: Any, method: str, event: EventDict) -> EventDict:
        if not levels.writes(event.get("service", ""), _SEVERITIES[method]):
            raise structlog.DropEvent
        return event

    return written


def _drop(_logger: Any, _method: str, _event: Any) -> Any:
    raise structlog.DropEvent
