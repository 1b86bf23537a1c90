"""Starts and restarts on busy processors: topics created at once get leaders."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from tests.conformance.topics import end_offsets, make_topic
from tests.support.cluster import make_cluster
from tests.support.process import wait_until

_STARTS = {"embedded": 8, "nodes3": 3}
_SPINNERS = 6
_PARTITIONS = 4
_TOPIC_S_MAX = 15.0
_WHOLE_RUN_S = 600


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    modes = metafunc.config.getoption("--cluster").split(",")
    metafunc.parametrize("mode", [mode for mode in modes if mode in _STARTS])


@pytest.mark.full
@pytest.mark.timeout(_WHOLE_RUN_S)
def test_topics_made_right_after_a_start_have_leaders(mode: str, tmp_path: Path) -> None:
    with _busy_processors():
        for number in range(_STARTS[mode]):
            cluster = make_cluster(mode, tmp_path / str(number))
            try:
                cluster.start()
                _make_topics(cluster.bootstrap, "first")
                cluster.stop()
                cluster.start()
                # Kafka, too, refuses a topic while all its nodes are fenced; those that were
                # there say when they are not.
                made = [f"first-{index}" for index in range(3)]
                _wait_for_leaders(cluster.bootstrap, made)
                _make_topics(cluster.bootstrap, "second")
                assert cluster.complaints() == []
            finally:
                cluster.stop()


def _make_topics(bootstrap: str, prefix: str) -> None:
    for index in range(3):
        started = time.monotonic()
        make_topic(bootstrap, f"{prefix}-{index}", partitions=_PARTITIONS)
        assert time.monotonic() - started < _TOPIC_S_MAX


def _wait_for_leaders(bootstrap: str, topics: list[str]) -> None:
    for topic in topics:
        leads = partial(_leads, bootstrap, topic)
        wait_until(leads, timeout_s=_TOPIC_S_MAX, what=f"leaders for {topic}")


def _leads(bootstrap: str, topic: str) -> bool:
    try:
        return len(end_offsets(bootstrap, topic, _PARTITIONS)) == _PARTITIONS
    except KafkaException:
        return False


@contextmanager
def _busy_processors() -> Iterator[None]:
    spinners = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(_SPINNERS)
    ]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait(timeout=10)
