import io
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import Field, SecretStr, model_validator
from rich.console import Console

from highwater.model.errors import ConfigError
from highwater.runtime.settings import (
    CONFIG_FILE_BYTES_MAX,
    ServiceSettings,
    SettingsGroup,
    load_settings,
    parse_assignments,
    print_config,
)


class Fetch(SettingsGroup):
    wait_ms_max: int = Field(default=500, ge=0, description="longest wait of a fetch")
    bytes_max: int = Field(default=1000, description="largest answer")


class DemoSettings(ServiceSettings):
    service: ClassVar[str] = "demo"
    host: str = Field(default="127.0.0.1", description="address to listen on")
    ttl_ms: int = Field(default=3000, description="lease")
    retry_ms: int = Field(default=1000, description="retry")
    secret: SecretStr = Field(default=SecretStr(""), description="a password")
    dirs: tuple[Path, ...] = Field(default=(), description="directories")
    fetch: Fetch = Fetch()
    limits: dict[str, Fetch] = Field(default={}, description="limits by client")

    @model_validator(mode="after")
    def _ttl_covers_retries(self) -> "DemoSettings":
        if self.ttl_ms < 2 * self.retry_ms:
            raise ValueError("ttl_ms must be >= 2 * retry_ms")
        return self


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "highwater.toml"
    path.write_text(
        '[demo]\nhost = "file"\nttl_ms = 4000\n'
        "[demo.fetch]\nwait_ms_max = 1\nbytes_max = 2\n[other]\nunrelated = 1\n"
    )
    return path


def test_defaults_without_any_source():
    assert load_settings(DemoSettings) == DemoSettings()


def test_later_sources_win_field_by_field(config_file, monkeypatch):
    monkeypatch.setenv("HIGHWATER_DEMO_TTL_MS", "5000")
    monkeypatch.setenv("HIGHWATER_DEMO_FETCH__BYTES_MAX", "20")
    settings = load_settings(
        DemoSettings,
        config_file=config_file,
        overrides={"ttl_ms": 6000, "fetch.bytes_max": None, "host": None},
    )
    assert settings.host == "file"
    assert settings.ttl_ms == 6000
    assert settings.fetch == Fetch(wait_ms_max=1, bytes_max=20)


def test_constructor_does_not_read_the_environment(monkeypatch):
    monkeypatch.setenv("HIGHWATER_DEMO_HOST", "elsewhere")
    assert DemoSettings().host == "127.0.0.1"
    assert load_settings(DemoSettings).host == "elsewhere"


def test_settings_are_frozen():
    with pytest.raises(ValueError, match="frozen"):
        DemoSettings().host = "other"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[demo]\nhots = 'x'\n", "demo settings: hots is not a setting"),
        ("[demo]\nttl_ms = 'soon'\n", "ttl_ms: Input should be a valid integer"),
        ("[demo.fetch]\nwait_ms_max = -1\n", "fetch.wait_ms_max: Input should be greater"),
        ("[demo]\nttl_ms = 1\n", "ttl_ms must be >= 2 * retry_ms"),
        ("host = 'x'\n", "host stands outside of any table"),
        ("[demo\n", "is not TOML"),
        ("#" * (CONFIG_FILE_BYTES_MAX + 1), "is larger than"),
    ],
)
def test_errors_in_the_file_are_one_clear_line(tmp_path, text, expected):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(DemoSettings, config_file=path)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load_settings(DemoSettings, config_file=tmp_path / "none.toml")


def test_misspelt_environment_variable_is_refused(monkeypatch):
    monkeypatch.setenv("HIGHWATER_DEMO_HOTS", "x")
    with pytest.raises(ConfigError, match="HIGHWATER_DEMO_HOTS does not name a setting"):
        load_settings(DemoSettings)


def test_environment_list_that_is_not_json(monkeypatch):
    monkeypatch.setenv("HIGHWATER_DEMO_DIRS", "a,b")
    with pytest.raises(ConfigError, match="dirs"):
        load_settings(DemoSettings)


def test_errors_beyond_the_limit_are_counted():
    wrong = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    with pytest.raises(ConfigError, match="and 2 more"):
        load_settings(DemoSettings, overrides=wrong)


def test_assignments():
    assert parse_assignments(["fetch.bytes_max=3", "host=a=b"]) == {
        "fetch.bytes_max": "3",
        "host": "a=b",
    }
    with pytest.raises(ConfigError, match="NAME=VALUE"):
        parse_assignments(["host"])


def test_groups_by_names_of_the_operators(config_file, monkeypatch):
    monkeypatch.setenv("HIGHWATER_DEMO_LIMITS__SPARK__BYTES_MAX", "7")
    overrides = parse_assignments(["limits.spark.wait_ms_max=8", "limits.flink.bytes_max=9"])
    settings = load_settings(DemoSettings, config_file=config_file, overrides=overrides)
    spark = Fetch(wait_ms_max=8, bytes_max=7)
    assert settings.limits == {"spark": spark, "flink": Fetch(bytes_max=9)}
    with pytest.raises(ConfigError, match=r"limits\.spark\.bytes is not a setting"):
        load_settings(DemoSettings, overrides={"limits.spark.bytes": 1})
    out = io.StringIO()
    print_config(settings, Console(width=200, file=out))
    assert "limits.spark.wait_ms_max" in out.getvalue()
    assert "HIGHWATER_DEMO_LIMITS__FLINK__BYTES_MAX" in out.getvalue()


def test_print_config_names_everything_and_hides_secrets():
    out = io.StringIO()
    print_config(DemoSettings(secret=SecretStr("hunter2")), Console(width=200, file=out))
    text = out.getvalue()
    assert "fetch.wait_ms_max" in text
    assert "HIGHWATER_DEMO_FETCH__WAIT_MS_MAX" in text
    assert "longest wait of a fetch" in text
    assert "limits by client" in text
    assert "hunter2" not in text
