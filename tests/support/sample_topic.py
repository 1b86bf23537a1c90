"""The sample log in a topic of a test's cluster."""

from __future__ import annotations

from tests.conformance.topics import make_topic, unique_name

PARTITIONS = 3
LINES = 10_000


def send_sample(bootstrap: str, *, replication: int = 1) -> str:
    """Makes a topic with the sample log, each record with its line's time, keyed by client; returns its name."""
    from highwater.spark.jobs.replay import SAMPLE
    from highwater.spark.replay.pace import Pace
    from highwater.spark.replay.sample import read_sample
    from highwater.spark.replay.sender import Sender

    topic = make_topic(
        bootstrap,
        unique_name("sample-stream"),
        partitions=PARTITIONS,
        replication=replication,
        # Retention counts from the records' own times, which are of 2015.
        configs={"retention.ms": "-1"},
    )
    lines = read_sample(SAMPLE.read_text(encoding="utf-8").splitlines(), "sample")
    sent = Sender(bootstrap, topic, compression="lz4", keyed=True).send_all(
        lines, Pace(first_ms=0, speed=None), stopping=lambda: False, tell=lambda _: None
    )
    assert sent.records == len(lines) == LINES
    return topic
