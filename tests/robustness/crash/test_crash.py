"""Repeated kill -9 under load: every acknowledged record is there once and in order."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.conformance.clients.confluent import ConfluentClient, open_consumer
from tests.conformance.messages import by_partition
from tests.conformance.topics import end_offsets, make_topic
from tests.robustness.crash.faults import Fault, KillNode, KillNodeTwice
from tests.robustness.crash.traffic import IdempotentTraffic, number_of
from tests.support.cluster import Cluster
from tests.support.process import wait_until

_PARTITIONS = 4
_ROUNDS = {"embedded": 3, "nodes3": 2, "combined3": 2, "grpcio3": 2, "kafka": 2}
_FULL = {"combined3", "grpcio3"}
_ROUND_S_MAX = 150
_SERVING_AGAIN_S_MAX = 30.0
# What a client retries while a coordinator moves or loads.
_PASSING = {
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._WAIT_COORD,
}
_TRACK_RECORD = Path(__file__).with_name("seeds.txt")
"""Seeds to be repeated in every full run, one per line with a comment."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "mode" in metafunc.fixturenames:
        modes = metafunc.config.getoption("--cluster").split(",")
        metafunc.parametrize(
            "mode",
            [
                pytest.param(mode, marks=pytest.mark.full if mode in _FULL else ())
                for mode in modes
                if mode in _ROUNDS
            ],
        )


@pytest.fixture
def rounds(request: pytest.FixtureRequest, mode: str) -> int:
    asked: int | None = request.config.getoption("--crash-rounds")
    return _ROUNDS[mode] if asked is None else asked


@pytest.mark.timeout(60 + 20 * _ROUND_S_MAX)
def test_kill_under_load(
    start_cluster: Callable[[str], Cluster], mode: str, seed: int, rounds: int
) -> None:
    _kill_in_rounds(start_cluster(mode), seed, rounds)


@pytest.mark.full
@pytest.mark.timeout(60 + 20 * _ROUND_S_MAX)
@pytest.mark.parametrize(
    "old_seed",
    [int(line.split()[0]) for line in _TRACK_RECORD.read_text().splitlines() if line[:1].isdigit()],
)
def test_seeds_worth_repeating(
    start_cluster: Callable[[str], Cluster], mode: str, old_seed: int
) -> None:
    _kill_in_rounds(start_cluster(mode), old_seed, _ROUNDS[mode])


def _kill_in_rounds(cluster: Cluster, seed: int, rounds: int) -> None:
    chance = random.Random(seed)
    topic = make_topic(
        cluster.bootstrap,
        "crash",
        partitions=_PARTITIONS,
        configs={"segment.bytes": str(1 << 20)},  # So that kills meet rolls too.
    )
    traffic = IdempotentTraffic(
        cluster.bootstrap, topic, partitions=_PARTITIONS, seed=chance.randrange(1 << 32)
    ).start()
    for round_number in range(1, rounds + 1):
        node = chance.choice(cluster.nodes)
        faults: list[Fault] = [
            KillNode(cluster=cluster, node_id=node.node_id),
            KillNodeTwice(cluster=cluster, node_id=node.node_id),
        ]
        fault = chance.choices(faults, weights=[4, 1])[0]
        committed = _commit_something(cluster, topic, round_number)
        _wait_for_progress(traffic)
        time.sleep(chance.uniform(0, 1.5))
        fault.inject()
        seconds = fault.heal()
        print(f"round {round_number}: {type(fault).__name__}, serving again in {seconds:.1f} s")
        assert seconds < _SERVING_AGAIN_S_MAX
        _wait_for_progress(traffic)
        _assert_committed(cluster, topic, round_number, committed)
    traffic.stop()
    _assert_history(cluster, traffic)
    assert cluster.complaints() == [], "a restart after a crash logs no errors"


def _wait_for_progress(traffic: IdempotentTraffic) -> None:
    before = traffic.acknowledged_count()
    wait_until(
        lambda: bool(traffic.failures) or traffic.acknowledged_count() > before + 200,
        timeout_s=90,
        what="acknowledgements",
    )
    assert traffic.failures == []


def _assert_history(cluster: Cluster, traffic: IdempotentTraffic) -> None:
    assert traffic.failures == []
    total = sum(traffic.sent.values())
    assert traffic.acknowledged_count() == total, "all records are acknowledged after the flush"
    ends = end_offsets(cluster.bootstrap, traffic.topic, _PARTITIONS)
    assert ends == {partition: traffic.sent[partition] for partition in range(_PARTITIONS)}
    stored = ConfluentClient().consume(
        cluster.bootstrap, traffic.topic, partitions=_PARTITIONS, count=total
    )
    for partition, records in by_partition(stored).items():
        numbers = [number_of(record.message.value) for record in records]
        assert numbers == list(range(traffic.sent[partition])), f"partition {partition}"
        found = {record.offset: number_of(record.message.value) for record in records}
        assert found == traffic.acknowledged[partition], f"partition {partition}"
    print(f"{total} records in {_PARTITIONS} partitions, each once and in order")


def _commit_something(cluster: Cluster, topic: str, round_number: int) -> int:
    """Commits an offset in a group of the round's own; returns it once it is confirmed."""
    consumer = open_consumer(cluster.bootstrap, **{"group.id": f"crash-{round_number}"})
    try:
        offset = 1_000 + round_number
        wait_until(
            lambda: _try_commit(consumer, TopicPartition(topic, 0, offset)),
            timeout_s=60,
            what="a commit",
        )
        return offset
    finally:
        consumer.close()


def _try_commit(consumer: Consumer, position: TopicPartition) -> bool:
    return _unless_passing(lambda: consumer.commit(offsets=[position], asynchronous=False)) != []


def _unless_passing(call: Callable[[], Any]) -> list[TopicPartition]:
    """The call's result; an empty list for errors of a coordinator that is about to come back."""
    try:
        result: list[TopicPartition] = call()
    except KafkaException as error:
        if error.args[0].code() not in _PASSING:
            raise
        return []
    return result


def _assert_committed(cluster: Cluster, topic: str, round_number: int, offset: int) -> None:
    """The groups of this and all earlier rounds have kept their offsets."""
    for earlier in range(1, round_number + 1):
        found = _committed(cluster, f"crash-{earlier}", TopicPartition(topic, 0))
        assert found == offset - round_number + earlier


def _committed(cluster: Cluster, group: str, partition: TopicPartition) -> int:
    consumer = open_consumer(cluster.bootstrap, **{"group.id": group})
    found: list[TopicPartition] = []

    def answered() -> bool:
        found[:] = _unless_passing(lambda: consumer.committed([partition], timeout=30))
        return found != []

    try:
        wait_until(answered, timeout_s=60, what=f"the offsets of group {group}")
    finally:
        consumer.close()
    offset: int = found[0].offset
    return offset
