"""Topics are created and deleted while clients use them; clients of other topics must not notice."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
)
from highwater.kafka.messages.delete_topics import DeleteTopicsRequest
from tests.conformance.protocol.requests import batch, fetch, list_offset, produce
from tests.robustness.fuzz.watch import HonestClient
from tests.support.cluster import Cluster
from tests.support.wire import ConnectionEnded, RawConnection

_MODES = ("embedded", "nodes3", "kafka")
_TOPICS = ("churn-0", "churn-1")
_PARTITIONS = 3
_ROUNDS = 15
_ROUNDS_FULL = 40

# What makes a log touch its directory more often: rolls, flushes, and deletions of segments.
_CONFIGS: tuple[dict[str, str], ...] = (
    {},
    {"segment.bytes": str(1 << 20)},
    {"flush.messages": "1"},
    {"segment.bytes": str(1 << 20), "retention.bytes": "1", "flush.ms": "1"},
)

# Errors that a client may get while its topic is created, deleted, or created again.
_PASSING = {
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.REQUEST_TIMED_OUT,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = metafunc.config.getoption("--cluster").split(",")
    modes = [mode for mode in chosen if mode in _MODES]
    quick = [pytest.param("embedded", _ROUNDS)] if "embedded" in modes else []
    full = [pytest.param(mode, _ROUNDS_FULL, marks=pytest.mark.full) for mode in modes]
    metafunc.parametrize(("mode", "rounds"), quick + full)


class Users:
    """Threads that produce to and read from the topics, whatever becomes of them."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.codes: set[int] = set()
        self.calls = 0
        self.failures: list[BaseException] = []
        self._bootstrap = cluster.bootstrap
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(f"{seed}-{index}"),))
            for index in range(4)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def _run(self, chance: random.Random) -> None:
        try:
            while not self._stopping.is_set():
                self._use(chance)
        except BaseException as error:  # noqa: BLE001  # The test's thread raises it.
            self.failures.append(error)

    def _use(self, chance: random.Random) -> None:
        try:
            with RawConnection.to(self._bootstrap) as connection:
                while not self._stopping.is_set():
                    self._call(connection, chance)
        except ConnectionEnded:
            time.sleep(0.05)  # acks=0 to a topic that is gone.

    def _call(self, connection: RawConnection, chance: random.Random) -> None:
        topic, partition = chance.choice(_TOPICS), chance.randrange(_PARTITIONS)
        match chance.randrange(4):
            case 0:
                part = fetch(connection, topic, 0, partition=partition, max_wait_ms=20)
            case 1:
                part = list_offset(connection, topic, -1, partition=partition)
            case _:
                records = batch([b"x" * chance.choice((500, 500, 100_000))])
                acks = chance.choice((1, -1))
                part = produce(connection, topic, records, partition=partition, acks=acks)
        self.codes.add(part.error_code)
        self.calls += 1


@pytest.mark.timeout(300)
def test_topics_deleted_and_made_again_under_load(
    start_cluster: Callable[[str], Cluster], mode: str, rounds: int, seed: int
) -> None:
    cluster = start_cluster(mode)
    chance = random.Random(seed)
    with HonestClient(cluster), RawConnection.to(cluster.bootstrap) as admin:
        users = Users(cluster, seed)
        try:
            for _ in range(rounds):
                topics = [
                    CreateTopicsRequestCreatableTopic(
                        name=name,
                        num_partitions=_PARTITIONS,
                        replication_factor=1,
                        configs=[
                            CreateTopicsRequestCreatableTopicConfig(name=key, value=value)
                            for key, value in chance.choice(_CONFIGS).items()
                        ],
                    )
                    for name in _TOPICS
                ]
                admin.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 5)
                time.sleep(chance.uniform(0, 0.3))
                gone = list(chance.sample(_TOPICS, chance.randint(1, 2)))
                admin.ask(DeleteTopicsRequest(topic_names=gone, timeout_ms=10_000), 5)
                time.sleep(chance.uniform(0, 0.1))
        finally:
            users.stop()
    print(f"{users.calls} calls, answers {sorted(users.codes)}")
    assert users.failures == []
    assert users.codes <= _PASSING
    assert ErrorCode.NONE in users.codes
    assert ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in users.codes
    assert cluster.complaints() == []
