"""Where a known bug can be put in: the product's own functions and classes, or others instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from highwater.controller.core.alter_reassignments import alter_reassignments
from highwater.controller.core.change_isr import alter_partitions
from highwater.controller.core.change_min_isr import after_min_isr_change
from highwater.controller.core.membership import change_nodes
from highwater.controller.core.tail_check import has_its_tail
from highwater.model.cluster import NodeState
from highwater.partition.core.producers import ProducerStates
from highwater.partition.core.replica import Replica
from highwater.partition.data_plane.append_answers import AppendAnswers
from highwater.partition.data_plane.verified_appends import VerifiedAppends
from highwater.partition.transactions.runtime import TransactionCoordinator
from tests.sim.gateways import Gateway
from tests.sim.node import NodeProcess


def _has_its_tail(before: NodeState, lineage: tuple[str, ...], *_: str) -> bool:
    return has_its_tail(before, lineage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug:
    """What a world is built of."""

    name: str = "none"
    seed: int = -1
    """The recorded one, which `make test` replays."""
    rare: bool = False
    """Only its recorded seed shows it: a thousand others need not."""
    source: str = ""
    """Where the bug was real, or which rule it breaks."""
    replica: Callable[..., Replica] = Replica
    answers: Callable[..., AppendAnswers] = AppendAnswers
    process: Callable[..., NodeProcess] = NodeProcess
    gateway: Callable[..., Gateway] = Gateway
    change_nodes: Callable[..., Any] = change_nodes
    alter_partitions: Callable[..., Any] = alter_partitions
    alter_reassignments: Callable[..., Any] = alter_reassignments
    has_its_tail: Callable[..., bool] = _has_its_tail
    """Of the former node, its lineage, and both boot ids."""
    after_min_isr_change: Callable[..., Any] = after_min_isr_change
    transactional: bool = False
    """Every seed that is tried with it has transactions."""
    producer_states: Callable[[], ProducerStates] = ProducerStates
    verified_appends: Callable[..., VerifiedAppends] = VerifiedAppends
    coordinator: Callable[..., TransactionCoordinator] = TransactionCoordinator


NO_BUG = Bug()
