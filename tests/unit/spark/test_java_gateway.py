"""What of PySpark's inside the gateway is made of."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from py4j.java_gateway import GatewayClient
from py4j.protocol import ERROR, ERROR_ON_RECEIVE, Py4JNetworkError

from highwater.spark.java_gateway import (
    empty_array,
    hadoop_configuration,
    java,
    java_session,
    mute_lost_calls,
)
from tests.support.process import free_port_block


def test_names_of_pyspark() -> None:
    context = SimpleNamespace(
        _jvm="packages",
        _jsc=SimpleNamespace(hadoopConfiguration=lambda: "settings"),
        _gateway=SimpleNamespace(new_array=lambda kind, size: (kind, size)),
    )
    spark = SimpleNamespace(sparkContext=context, _jsparkSession="session")
    assert (java(spark), hadoop_configuration(spark)) == ("packages", "settings")
    assert java_session(spark) == "session"
    assert empty_array(spark, "class") == ("class", 0)


def test_the_end_of_java_is_no_traceback_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "filters", [])
    monkeypatch.setattr(logging.getLogger("py4j"), "propagate", True)
    mute_lost_calls()
    mute_lost_calls()
    assert len(logging.getLogger().filters) == 1
    gateway = GatewayClient(address="127.0.0.1", port=free_port_block(1))
    with pytest.raises(Py4JNetworkError):
        gateway.send_command("c\n")
    lost = Lost()
    monkeypatch.setattr(gateway, "_get_connection", lambda: lost)
    assert gateway.send_command("c\n", retry=False) == ERROR
    logging.error("of somebody else")  # noqa: LOG015 - Py4J writes there, too.
    assert lost.closed
    assert [record.message for record in caplog.records] == ["of somebody else"]


class Lost:
    """A connection whose Java has died."""

    closed = False

    def send_command(self, command: str) -> str:
        raise Py4JNetworkError("reset", when=ERROR_ON_RECEIVE)

    def close(self, reset: bool) -> None:
        self.closed = True
