"""The loads of the cases, by client library: a bank with two tellers, and a group that copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.robustness.faults.transactions.bank import Bank, MakeClient
from tests.robustness.faults.transactions.clients import LibrdkafkaClient
from tests.robustness.faults.transactions.copies import CopyHistory
from tests.robustness.faults.transactions.copying import Copier, Copying, LibrdkafkaCopier
from tests.robustness.faults.transactions.killing import KilledClient, KilledCopier
from tests.robustness.faults.transactions.programs import (
    FranzCopier,
    JavaCopier,
    ProgramClient,
    franz_client,
    java_client,
    librdkafka_client,
)
from tests.robustness.faults.transactions.run import GROUP, PARTITIONS, PAYER, Ground, Load

_OTHER = "payer-2"
_COPIERS = ("copier-1", "copier-2")


def of_librdkafka(ground: Ground) -> Sequence[Load]:
    """Two tellers and two copiers, all of librdkafka. Only for faults that leave all nodes in Metadata:
    its send_offsets_to_transaction waits for ever for a group coordinator that Metadata does not have
    any more (https://github.com/confluentinc/librdkafka/issues/5511)."""

    def copiers(history: CopyHistory) -> list[Copier]:
        return [
            LibrdkafkaCopier(
                ground.clients, ground.source.topic, ground.output, GROUP, name, history
            )
            for name in _COPIERS
        ]

    return [
        _bank(ground, _librdkafka(ground), _librdkafka(ground)),
        Copying(ground.bootstrap, ground.output, GROUP, ground.source, copiers),
    ]


def of_both(ground: Ground) -> Sequence[Load]:
    """Two tellers of librdkafka and two copiers of franz-go."""
    return [
        _bank(ground, _librdkafka(ground), _librdkafka(ground)),
        Copying(ground.bootstrap, ground.output, GROUP, ground.source, _franz_copiers(ground)),
    ]


def of_franz(ground: Ground) -> Sequence[Load]:
    """Two tellers and two copiers, all of franz-go: transaction.version 2."""

    def teller(name: str) -> ProgramClient:
        return franz_client(ground.bootstrap, ground.accounts, name)

    return [
        _bank(ground, teller, teller),
        Copying(ground.bootstrap, ground.output, GROUP, ground.source, _franz_copiers(ground)),
    ]


def of_java(ground: Ground) -> Sequence[Load]:
    """Two tellers of Kafka's own client beside Kafka's own copier, which changes nothing of what it
    copies."""

    def copiers(history: CopyHistory) -> list[Copier]:
        return [
            JavaCopier(
                ground.bootstrap, ground.source.topic, ground.output, GROUP, _COPIERS[0], history
            )
        ]

    return [
        _bank(ground, _java(ground), _java(ground)),
        Copying(ground.bootstrap, ground.output, GROUP, ground.source, copiers, prefix=b""),
    ]


def of_java_and_librdkafka(ground: Ground) -> Sequence[Load]:
    """A teller of each, and two copiers of franz-go."""
    return [
        _bank(ground, _java(ground), _librdkafka(ground)),
        Copying(ground.bootstrap, ground.output, GROUP, ground.source, _franz_copiers(ground)),
    ]


def of_killed(ground: Ground, seed: int) -> Sequence[Load]:
    """A teller of librdkafka and one of Java, and two copiers of franz-go, whose processes are killed."""

    def copiers(history: CopyHistory) -> list[Copier]:
        return [
            KilledCopier(
                FranzCopier(
                    ground.bootstrap, ground.source.topic, ground.output, GROUP, name, history
                )
            )
            for name in _COPIERS
        ]

    def killed(make: Callable[[str, str, str], ProgramClient]) -> MakeClient:
        return lambda name: KilledClient(make(ground.bootstrap, ground.accounts, name), seed)

    return [
        _bank(ground, killed(librdkafka_client), killed(java_client)),
        Copying(ground.bootstrap, ground.output, GROUP, ground.source, copiers),
    ]


def _franz_copiers(ground: Ground) -> Callable[[CopyHistory], list[Copier]]:
    return lambda history: [
        FranzCopier(ground.bootstrap, ground.source.topic, ground.output, GROUP, name, history)
        for name in _COPIERS
    ]


def _librdkafka(ground: Ground) -> MakeClient:
    return lambda name: LibrdkafkaClient(ground.clients, ground.accounts, name)


def _java(ground: Ground) -> MakeClient:
    return lambda name: java_client(ground.bootstrap, ground.accounts, name)


def _bank(ground: Ground, payer: MakeClient, other: MakeClient) -> Bank:
    return Bank(ground.clients, ground.accounts, PARTITIONS, {PAYER: payer, _OTHER: other})
