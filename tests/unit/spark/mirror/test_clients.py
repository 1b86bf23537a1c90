"""Settings of the target's clients, and what their errors mean."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="needs the spark extra")

from confluent_kafka import KafkaError

from highwater.spark.ending import EXIT_LATER, EXIT_SPARK, exit_code
from highwater.spark.mirror import clients as module
from highwater.spark.mirror.clients import (
    CopyRefused,
    Failure,
    MirrorFailed,
    MirrorTakenOver,
    TargetClients,
    Trouble,
    error_of,
    failure,
)
from highwater.spark.topic_admin import ClusterAway


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in ("AdminClient", "Producer", "Consumer"):
        monkeypatch.setattr(module, name, found.append)
    return found


def test_settings_of_clients(made: list[dict[str, Any]]):
    clients = TargetClients(
        bootstrap="h:1", compression="zstd",
        settings={"security.protocol": "ssl", "bootstrap.servers": "no", "isolation.level": "no"},
    )  # fmt: skip
    clients.admin()
    clients.producer("id", 500)
    clients.consumer(read_committed=True)
    clients.consumer(read_committed=False)
    assert {each["bootstrap.servers"] for each in made} == {"h:1"}
    assert {each["security.protocol"] for each in made} == {"ssl"}
    _, producer, committed, uncommitted = made
    assert producer["transactional.id"] == "id"
    assert producer["batch.size"] == 500
    assert producer["compression.type"] == "zstd"
    # The client refuses the contrary.
    assert producer["message.timeout.ms"] <= producer["transaction.timeout.ms"]
    assert committed["isolation.level"] == "read_committed"
    assert uncommitted["isolation.level"] == "read_uncommitted"
    assert committed["enable.partition.eof"]


def test_it_goes_to_tasks():
    clients = TargetClients(bootstrap="h:1", settings={"a": "b"})
    assert pickle.loads(pickle.dumps(clients)) == clients


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        (KafkaError._FENCED, Trouble.TAKEN_OVER),
        (KafkaError.INVALID_PRODUCER_EPOCH, Trouble.TAKEN_OVER),
        (KafkaError.MSG_SIZE_TOO_LARGE, Trouble.REFUSED),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Trouble.REFUSED),
        (KafkaError._TRANSPORT, Trouble.AWAY),
        (KafkaError._MSG_TIMED_OUT, Trouble.AWAY),
        (KafkaError.UNKNOWN, Trouble.FAILED),
    ],
)
def test_what_errors_mean(code: int, trouble: Trouble):
    found = failure(KafkaError(code), "copy t-0")
    assert found.trouble is trouble
    assert found.text.startswith("copy t-0: ")


@pytest.mark.parametrize(
    ("trouble", "kind", "code"),
    [
        (Trouble.AWAY, ClusterAway, EXIT_LATER),
        (Trouble.TAKEN_OVER, MirrorTakenOver, EXIT_LATER),
        (Trouble.REFUSED, CopyRefused, 2),
        (Trouble.FAILED, MirrorFailed, EXIT_SPARK),
    ],
)
def test_failures_as_errors(trouble: Trouble, kind: type[Exception], code: int):
    error = error_of(Failure(trouble=trouble, text="why"))
    assert type(error) is kind
    assert str(error) == "why"
    assert exit_code(error) == code


def test_a_setting_that_the_client_does_not_know():
    with pytest.raises(CopyRefused, match=r"a client of h:1: .*no-such-setting"):
        TargetClients(bootstrap="h:1", settings={"no-such-setting": "1"}).admin()
