"""Runs strikes under transactions: a cluster, loads, damage and repair, and a verdict on the histories."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from highwater.model.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from highwater.model.partitioning import coordinator_partition
from tests.cluster.replicated import FAST_SESSIONS, in_form
from tests.robustness.faults.checker import Violation, report, violations
from tests.robustness.faults.fault import Scene
from tests.robustness.faults.transactions.strikes import Aim, Strike, network_of
from tests.robustness.faults.workload import Workload
from tests.support.cluster_view import view
from tests.support.kafka_admin import make_replicated_topic
from tests.support.partition_logs import assert_identical_logs
from tests.support.process import wait_until
from tests.support.replicated.shape import Shape
from tests.support.replicated_cluster import ReplicatedCluster

PARTITIONS = 3
GROUP = "copiers"
"""Its coordinator is one of those that strikes are about."""
PAYER = "payer-1"
"""The transactional id whose coordinator is another one."""

HEALED_S_MAX = 90.0
READ_S_MAX = 90.0
_STALLED = "event_loop_stalled"
_STEADY = 40
_PER_COMMIT = 10
"""Acknowledgements that a fault waits for, for each commit of a transaction to wait for."""
_FEW_PARTITIONS = {"transaction_state_partitions": "6", "group_metadata_partitions": "6"}
"""Of the coordinators' topics: two for each node."""
_COMBINED_CLIENTS = {"socket.timeout.ms": 6_000}
"""A client whose gateway hangs notices it by itself."""


class Load(Protocol):
    """Clients that run transactions, and what became of these."""

    name: str

    def start(self) -> None: ...

    def commits(self) -> Mapping[str, int]:
        """By client, how many transactions it has committed."""

    def finish(self, *, timeout_s: float) -> None:
        """Ends the clients and completes the history."""

    def abandon(self) -> None:
        """Ends all clients; also after a failure."""

    def judge(self) -> list[Violation]:
        """All violations of the history."""

    def errors(self) -> Mapping[str, list[str]]:
        """By client, errors that no fault explains."""

    def summary(self) -> str:
        """The history in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What loads find in a cluster: topics of `PARTITIONS` partitions, and an input that fills."""

    clients: Mapping[str, Any]
    """Settings of all clients, in librdkafka's words."""
    accounts: str
    output: str
    source: Workload
    """Writes to the input topic, until the loads are to finish."""

    @property
    def bootstrap(self) -> str:
        found: str = self.clients["bootstrap.servers"]
        return found


def run_strikes(
    strikes: list[Strike],
    loads: Callable[[Ground], Sequence[Load]],
    directory: Path,
    seed: int,
    *,
    form: str = "split",
) -> None:
    """Starts a cluster for these strikes, and ends it."""
    standby = any(strike.needs_standby for strike in strikes)
    settings = {"controller": FAST_SESSIONS, "gateway": _FEW_PARTITIONS}
    shape = in_form(Shape(controllers=1 + standby, etcd_members=1, settings=settings), form)
    cluster = ReplicatedCluster(directory, shape, hosts=network_of(strikes))
    try:
        cluster.start()
        of_clients = _COMBINED_CLIENTS if form == "combined" else {}
        _run_in(cluster, strikes, loads, random.Random(seed), of_clients)
    finally:
        cluster.stop()


def _run_in(
    cluster: ReplicatedCluster,
    strikes: list[Strike],
    make_loads: Callable[[Ground], Sequence[Load]],
    chance: random.Random,
    settings: Mapping[str, Any],
) -> None:
    ground = _ground(cluster, settings)
    loads = make_loads(ground)
    try:
        ground.source.start()
        for load in loads:
            load.start()
        wait = _progress(ground.source, loads)
        wait(_STEADY, HEALED_S_MAX)
        for strike in strikes:
            _strike(cluster, ground, strike, chance, wait)
        ground.source.finish(timeout_s=READ_S_MAX)
        for load in loads:
            load.finish(timeout_s=READ_S_MAX)
        _judge(cluster, ground, loads)
    except BaseException:
        for load in loads:
            print(f"{load.name}: {load.summary()}")
        print(f"input: {ground.source.summary()}")
        raise
    finally:
        for load in loads:
            load.abandon()
        ground.source.abandon()


def _ground(cluster: ReplicatedCluster, settings: Mapping[str, Any]) -> Ground:
    accounts, source, output = (
        make_replicated_topic(
            cluster.bootstrap,
            name,
            partitions=PARTITIONS,
            configs={"min.insync.replicas": "2"},
        )
        for name in ("accounts", "input", "output")
    )
    return Ground(
        clients={
            "bootstrap.servers": cluster.bootstraps,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 5_000,
            **settings,
        },
        accounts=accounts,
        output=output,
        source=Workload(cluster.bootstraps, source, partitions=PARTITIONS, settings=settings),
    )


def _progress(source: Workload, loads: Sequence[Load]) -> Callable[[int, float], None]:
    """Waits until every client has committed some transactions more, and the input has grown."""

    def wait(count: int, timeout_s: float) -> None:
        wanted = max(1, count // _PER_COMMIT)
        before = {load.name: dict(load.commits()) for load in loads}

        def progressed() -> bool:
            return all(
                now >= before[load.name][client] + wanted
                for load in loads
                for client, now in load.commits().items()
            )

        try:
            wait_until(progressed, timeout_s=timeout_s, what="commits of every client")
        except TimeoutError as error:
            now = {load.name: dict(load.commits()) for load in loads}
            raise TimeoutError(f"{error}: {before} before, {now} now") from None
        source.wait_for_progress(count, timeout_s=timeout_s)

    return wait


def _strike(
    cluster: ReplicatedCluster,
    ground: Ground,
    strike: Strike,
    chance: random.Random,
    wait: Callable[[int, float], None],
) -> None:
    topic, partition = _place(cluster, ground, strike.aim)
    scene = Scene(cluster, topic, ground.source, chance, partition=partition, progress=wait)
    begun_s = time.monotonic()
    try:
        strike.fault.inject(scene)
        injected_s = time.monotonic()
        strike.fault.heal(scene)
        wait_until(cluster.is_whole, timeout_s=HEALED_S_MAX, what="full ISRs of all topics")
        healed_s = time.monotonic()
        scene.progress(_STEADY)
    finally:
        print(f"\n{strike}: {'; '.join(scene.notes) or 'nothing to tell'}")
    print(
        f"    broken for {injected_s - begun_s:.1f} s, whole {healed_s - injected_s:.1f} s later, "
        f"commits of all {time.monotonic() - healed_s:.1f} s later"
    )


def _place(cluster: ReplicatedCluster, ground: Ground, aim: Aim) -> tuple[str, int]:
    """The partition whose leader a strike is about."""
    coordinated = {
        Aim.TRANSACTIONS: (TRANSACTION_STATE_TOPIC, PAYER),
        Aim.GROUP: (GROUP_METADATA_TOPIC, GROUP),
    }
    if aim not in coordinated:
        return ground.accounts, 0
    topic, name = coordinated[aim]
    return topic, coordinator_partition(name, len(view(cluster.bootstrap, topic)))


def _judge(cluster: ReplicatedCluster, ground: Ground, loads: Sequence[Load]) -> None:
    found = violations(ground.source.history)
    for load in loads:
        print(f"    {load.name}: {load.summary()}")
        found += load.judge()
    assert not found, report(found)
    errors = {load.name: dict(load.errors()) for load in loads if load.errors()}
    assert not errors, errors
    wait_until(cluster.is_whole, timeout_s=HEALED_S_MAX, what="full ISRs of all topics")
    for topic in (ground.accounts, ground.output):
        for partition in range(PARTITIONS):
            assert_identical_logs(cluster, topic, partition)
    assert cluster.complaints([_STALLED]) == [], "unexpected log lines"
