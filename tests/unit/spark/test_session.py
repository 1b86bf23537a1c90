"""The connector's jars, and the settings of a local session."""

from __future__ import annotations

from pathlib import Path

import pytest

from highwater.model.errors import EXIT_USAGE, UsageError

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark import session


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    for name in ("spark-sql-kafka-0-10_2.13-4.0.0.jar", "kafka-clients-3.9.0.jar", "README"):
        (tmp_path / name).touch()
    return tmp_path


def test_jars_of_a_directory_that_is_given(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(session.JARS_VARIABLE, "/nowhere")
    found = session.connector_jars(jars)
    assert [jar.name for jar in found] == [
        "kafka-clients-3.9.0.jar",
        "spark-sql-kafka-0-10_2.13-4.0.0.jar",
    ]


def test_jars_of_the_environment(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(session.JARS_VARIABLE, str(jars))
    assert session.connector_jars() == session.connector_jars(jars)


def test_missing_jars_are_an_operator_error(tmp_path: Path) -> None:
    (tmp_path / "kafka-clients-3.9.0.jar").touch()
    with pytest.raises(UsageError, match=r"spark_jars\.sh") as caught:
        session.connector_jars(tmp_path)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert EXIT_USAGE == 2


def test_a_local_session_uses_no_names_and_little_memory(jars: Path) -> None:
    settings = session.settings_for(session.connector_jars(jars))
    assert settings["spark.master"] == "local[2]"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.jars"].count(".jar") == 2
    log_settings = settings["spark.driver.extraJavaOptions"].partition("=")[2]
    assert Path(log_settings.removeprefix("file://")).is_file()


def test_a_submitted_session_leaves_the_command_line_alone() -> None:
    settings = session.settings_for(None)
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert not settings.keys() & {"spark.master", "spark.jars", "spark.driver.memory"}
