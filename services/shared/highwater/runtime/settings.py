"""Settings of a process: one frozen model, filled from a TOML file, the environment and flags.

Later sources win: defaults, then the service's table in the TOML file, then environment variables
(`HIGHWATER_<SERVICE>_<NAME>`, nested with `__`), then command-line overrides. Only `load_settings`
reads these sources; a model that is constructed directly uses only its arguments, so tests do not
depend on their environment. Every mistake is a `ConfigError` of one line.
"""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from highwater.model.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

_NESTED: Final = "__"
_ERRORS_TOLD_MAX: Final = 3
"""Mistakes listed in the one line of an error; further ones show at the next start."""

CONFIG_FILE_BYTES_MAX: Final = 1 << 20
"""A larger file is surely not a configuration, and is not parsed."""


class SettingsGroup(BaseModel):
    """A nested group of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ServiceSettings(BaseSettings):
    """The base of every service's settings.

    A subclass sets `service` ("gateway") and describes each field; field names end with units.
    """

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_nested_delimiter=_NESTED, validate_default=True
    )

    service: ClassVar[str] = ""
    """Names the TOML table and, in upper case, the environment variables."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's.
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Constructor arguments only; `load_settings` merges the other sources itself."""
        return (init_settings,)


_S = TypeVar("_S", bound=ServiceSettings)


def env_prefix(settings_type: type[ServiceSettings]) -> str:
    """The prefix of the service's environment variables."""
    assert settings_type.service, f"{settings_type.__name__} does not name its service"
    return f"HIGHWATER_{settings_type.service.upper()}_"


def load_settings(
    settings_type: type[_S],
    *,
    config_file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> _S:
    """The service's settings from all sources. Raises ConfigError with one clear line.

    `overrides` are keyed by dotted names ("metrics.port"); values of None are skipped, so the
    flags of a command can be passed unchanged. `defaults`, keyed likewise, replace the model's own:
    every source wins over them.
    """
    merged: dict[str, Any] = {}
    for name, value in (defaults or {}).items():
        _merge(merged, _nest(name, value))
    if config_file is not None:
        _merge(merged, _read_table(config_file, settings_type.service))
    _merge(merged, _read_environment(settings_type))
    for name, value in (overrides or {}).items():
        if value is not None:
            _merge(merged, _nest(name, value))
    try:
        return settings_type(**merged)
    except ValidationError as error:
        raise ConfigError(_explain(settings_type, error)) from None


def parse_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """Turns `--set name=value` flags into overrides; lists are JSON, as in the environment."""
    overrides: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise ConfigError(f"expected NAME=VALUE, got {assignment!r}")
        overrides[name] = _json_or_text(value)
    return overrides


def _json_or_text(value: str) -> Any:
    """Lists and objects as JSON; other types are converted from text by their fields."""
    if not value.startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value  # For example an IPv6 address.


def print_config(settings: ServiceSettings, console: "Console | None" = None) -> None:
    """Prints every setting with its value, environment variable and description."""
    # Imported here: services start without ever printing a table.
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"highwater {settings.service}", title_justify="left")
    for column in ("setting", "value", "environment variable", "meaning"):
        table.add_column(column, overflow="fold")
    prefix = env_prefix(type(settings))
    for path, value, description in _leaves(settings, ()):
        variable = prefix + _NESTED.join(path).upper()
        table.add_row(".".join(path), _show(value), variable, description)
    (console or Console()).print(table)


def _leaves(group: BaseModel, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    for name, info in type(group).model_fields.items():
        value = getattr(group, name)
        if isinstance(value, BaseModel):
            yield from _leaves(value, (*path, name))
        elif value and isinstance(value, dict):  # Groups by names that the operator gives them.
            for key, one in value.items():
                yield from _leaves(one, (*path, name, key))
        else:
            yield (*path, name), value, info.description or ""


def _show(value: Any) -> str:
    if isinstance(value, SecretStr):
        return "set, hidden" if value.get_secret_value() else "not set"
    if value is None:
        return "not set"
    if isinstance(value, list | tuple | dict):
        return ", ".join(str(item) for item in value) or "none"
    return str(value)


def _read_table(path: Path, service: str) -> dict[str, Any]:
    """One file may configure all services, each in its own table."""
    try:
        if path.stat().st_size > CONFIG_FILE_BYTES_MAX:
            raise ConfigError(f"config file {path} is larger than {CONFIG_FILE_BYTES_MAX} bytes")
        with path.open("rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot read config file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"config file {path} is not TOML: {error}") from None
    for name, value in document.items():
        if not isinstance(value, dict):
            raise ConfigError(
                f"config file {path}: {name} stands outside of any table, e.g. [{service}]"
            )
    table: dict[str, Any] = document.get(service, {})
    return table


def _read_environment(settings_type: type[ServiceSettings]) -> dict[str, Any]:
    prefix = env_prefix(settings_type)
    for name in sorted(os.environ):
        if name.upper().startswith(prefix):
            field = name[len(prefix) :].split(_NESTED)[0].lower()
            if field not in settings_type.model_fields:
                # Pydantic ignores unknown variables, and so would hide typing mistakes.
                raise ConfigError(f"environment variable {name} does not name a setting")
    try:
        return EnvSettingsSource(settings_type, env_prefix=prefix)()
    except SettingsError as error:
        raise ConfigError(f"environment: {error}".replace("\n", " ")) from None


def _nest(dotted: str, value: Any) -> dict[str, Any]:
    for name in reversed(dotted.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def _merge(into: dict[str, Any], update: Mapping[str, Any]) -> None:
    for name, value in update.items():
        present = into.get(name)
        if isinstance(present, dict) and isinstance(value, Mapping):
            _merge(present, value)
        else:
            into[name] = dict(value) if isinstance(value, Mapping) else value


def _explain(settings_type: type[ServiceSettings], error: ValidationError) -> str:
    told = [_explain_one(detail) for detail in error.errors()[:_ERRORS_TOLD_MAX]]
    more = error.error_count() - len(told)
    if more > 0:
        told.append(f"and {more} more")
    return f"{settings_type.service} settings: " + "; ".join(told)


def _explain_one(detail: ErrorDetails) -> str:
    name = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{name} is not a setting"
    if detail["type"] == "missing":
        return f"{name} is not set"
    message = detail["msg"].removeprefix("Value error, ").replace("\n", " ")
    # The values of a whole group may include a password, and its message is clear without them.
    if not name or isinstance(detail["input"], Mapping):
        return f"{name}: {message}" if name else message
    return f"{name}: {message} (got {detail['input']!r})"
