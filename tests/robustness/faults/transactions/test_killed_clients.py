"""Processes of transactional clients get SIGKILL: no part of what they left open is ever seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.robustness.faults.client_settings import PATIENT
from tests.robustness.faults.process_faults import KillLeader
from tests.robustness.faults.transactions.bank import Bank
from tests.robustness.faults.transactions.clients import LibrdkafkaClient
from tests.robustness.faults.transactions.killing import KilledClient, hang
from tests.robustness.faults.transactions.ledger import (
    Leg,
    Transfer,
    postings_of,
    value_of,
)
from tests.robustness.faults.transactions.loads import of_killed
from tests.robustness.faults.transactions.programs import (
    ProgramClient,
    java_client,
    librdkafka_client,
)
from tests.robustness.faults.transactions.run import run_strikes
from tests.robustness.faults.transactions.strikes import Aim, Strike
from tests.support.cluster import Cluster
from tests.support.etcd import etcd_missing
from tests.support.kafka_admin import make_replicated_topic
from tests.support.process import wait_until

_PARTITIONS = 3
_WAIT_S_MAX = 120.0
_SHORT_S = 3.0
"""The timeout of the transaction that nobody ends."""

_MakeClient = Callable[..., ProgramClient]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("make", "kills"),
    [
        pytest.param(librdkafka_client, 2, id="librdkafka"),
        pytest.param(
            librdkafka_client, 20, id="librdkafka-again-and-again", marks=pytest.mark.full
        ),
        pytest.param(java_client, 8, id="java", marks=[pytest.mark.full, pytest.mark.java]),
    ],
)
def test_a_killed_teller_is_fenced_by_its_successor_and_a_lost_one_times_out(
    make: _MakeClient, kills: int, start_cluster: Callable[[str], Cluster], seed: int
) -> None:
    bootstrap = start_cluster("embedded").bootstrap
    topic = make_replicated_topic(
        bootstrap, "accounts", partitions=_PARTITIONS, replication_factor=1
    )
    clients = {**PATIENT, "bootstrap.servers": bootstrap}
    killed = KilledClient(make(bootstrap, topic, "killed"), seed)
    bank = Bank(
        clients,
        topic,
        _PARTITIONS,
        {"killed": lambda _: killed, "other": partial(LibrdkafkaClient, clients, topic)},
    )
    lost = make(bootstrap, topic, "lost", timeout_s=_SHORT_S)
    try:
        bank.start()
        wait_until(lambda: killed.kills >= kills, timeout_s=_WAIT_S_MAX, what="kills")
        transfer = Transfer("lost", 0)
        bank.ledger.outcomes[transfer] = hang(lost, _records(transfer))
        bank.finish(timeout_s=_WAIT_S_MAX)
    finally:
        print(bank.summary())
        bank.abandon()
        lost.close()
    assert bank.judge() == []
    assert not bank.errors()
    written = {leg.transfer for some in bank.ledger.everything.values() for _, leg in some if leg}
    assert transfer in written, "or nothing hung"
    assert bank.commits()["killed"] >= kills


def _records(transfer: Transfer) -> list[tuple[int, bytes]]:
    return [
        (posting.partition, value_of(Leg(transfer, place), _PARTITIONS))
        for place, posting in enumerate(postings_of(transfer, _PARTITIONS))
    ]


@pytest.mark.full
@pytest.mark.etcd
@pytest.mark.clients
@pytest.mark.java
@pytest.mark.timeout(420)
def test_tellers_and_copiers_are_killed_while_coordinators_are(tmp_path: Path, seed: int) -> None:
    if why := etcd_missing():
        pytest.skip(why)
    chosen = [Strike(fault=KillLeader(), aim=aim) for aim in (Aim.TRANSACTIONS, Aim.GROUP)]
    run_strikes(chosen, partial(of_killed, seed=seed), tmp_path, seed)
