"""The sender with a producer that is not one; tests/spark sends to real brokers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("confluent_kafka", reason="needs the spark extra")

from highwater.spark.replay import sender as module
from highwater.spark.replay.pace import Pace
from highwater.spark.replay.sample import LogLine
from highwater.spark.replay.sender import ReplayFailed, Sender, Sent

LINES = [
    LogLine(time_ms=1000 * number, client=f"c{number}", text=f"line {number}")
    for number in range(5)
]
PACE = Pace(first_ms=0, speed=None)


class FakeProducer:
    """Acknowledges at a flush or a poll; `full` of its first calls find the queue full."""

    def __init__(self, settings: dict[str, object]) -> None:
        self.settings = settings
        self.produced: list[tuple] = []
        self.waiting: list = []
        self.full = 0
        self.refusal = None
        self.stuck = False

    def produce(self, topic, value, key, timestamp, on_delivery):
        if self.full:
            self.full -= 1
            raise BufferError
        self.produced.append((topic, value, key, timestamp))
        self.waiting.append((on_delivery, value))

    def poll(self, timeout_s):
        if self.stuck:
            return
        for on_delivery, value in self.waiting:
            on_delivery(self.refusal, value)
        self.waiting = []

    def flush(self, timeout_s):
        self.poll(0)
        return len(self.waiting)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Sender:
    monkeypatch.setattr(module, "Producer", FakeProducer)
    return Sender("b:1", "t", compression="lz4", keyed=True)


def send(made: Sender, *, stop_after: int = 10**9) -> Sent:
    producer = made._producer
    return made.send_all(
        LINES, PACE, stopping=lambda: len(producer.produced) >= stop_after, tell=lambda _: None
    )


def test_records_have_the_lines_times_and_clients(made: Sender):
    sent = send(made)
    assert (sent.records, sent.size_bytes, sent.time_ms) == (5, 30, 4000)
    assert made._producer.produced == [
        ("t", f"line {n}".encode(), f"c{n}".encode(), 1000 * n) for n in range(5)
    ]


def test_settings_of_the_client(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "Producer", FakeProducer)
    given = {"linger.ms": "5", "enable.idempotence": "false"}
    made = Sender("b:1", "t", compression="lz4", keyed=True, kafka=given)
    found = made._producer.settings
    assert (found["linger.ms"], found["enable.idempotence"]) == ("5", True)


def test_without_keys(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "Producer", FakeProducer)
    made = Sender("b:1", "t", compression="none", keyed=False)
    send(made)
    assert {key for _, _, key, _ in made._producer.produced} == {None}


def test_a_full_queue_waits(made: Sender):
    made._producer.full = 3
    assert send(made).records == 5


def test_a_queue_that_stays_full_fails(made: Sender):
    made._producer.full = 10**9
    with pytest.raises(ReplayFailed, match="no record into t was acknowledged"):
        send(made)


def test_a_refused_record_fails(made: Sender):
    made._producer.refusal = SimpleNamespace(str=lambda: "too large")
    with pytest.raises(ReplayFailed, match="a record into t was refused: too large"):
        send(made)


def test_records_without_acknowledgement_fail(made: Sender):
    made._producer.stuck = True
    with pytest.raises(ReplayFailed, match="5 records into t were not acknowledged"):
        send(made)


def test_a_stop_waits_for_what_was_sent(made: Sender):
    assert send(made, stop_after=2).records == 2
