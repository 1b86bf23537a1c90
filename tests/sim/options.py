"""What one seed means: the cluster's shape, its times, and which faults it may meet (swarm testing).

Each seed switches a random part of the faults on, so that rare combinations are not always hidden
behind the same frequent ones. All times are milliseconds of the simulated clock; they are about a
tenth of the real defaults, so that 2 000 events hold a dozen elections.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

FAULTS = (
    "kill",
    "power_loss",
    "clean_stop",
    "pause",
    "isolate",
    "one_way",
    "cut_link",
    "cut_controller",
    "slow_network",
    "slow_controller",
    "disk_full",
    "disk_error",
    "new_disk",
    "clock_jump",
    "controller_stall",
    "controller_failover",
    "change_min_isr",
    "preferred_election",
    "retention",
)

MOVES = ("reassign", "reassign", "cancel_reassignment")
"""Replicas that move to other nodes, in a share of the seeds."""
MOVING_SHARE = 0.3
LED_BY_ADDED = ("cancel_led_by_added", "cancel_led_by_added")
LED_BY_ADDED_SHARE = 0.35
"""Of the seeds in which replicas move."""
SECOND_GATEWAY_SHARE = 0.3
FAILING_SHARE = 0.4
DAMAGES = ("log_damaged", "log_damaged")
"""Records that a scrubber finds damaged, so that the replica is made anew while its node lives."""
DAMAGED_SHARE = 0.3
HANGS = ("disk_hangs", "disk_hangs", "disk_hangs", "kill")
"""Writes that end late, by when roles may have changed."""
HANGING_SHARE = 0.3
FLUSHING_SHARE = 0.25
"""Seeds in which the topic has flush.messages."""
LEAVING = ("successor_leaves", "successor_leaves")
LEAVING_SHARE = 0.2
DELETING_SHARE = 0.2
"""Seeds in which clients delete records."""
DELETING_SEED = 777
TRANSACTIONAL_SHARE = 0.02
"""Seeds with a cluster of several partitions and transactions: each costs as much as several."""
TRANSACTIONAL_SEED = 1
NEVER_MS = 1 << 40
EXPIRING_SHARE = 0.4
"""Seeds with transactions in which producers expire. All messages may then be later than producers are
known, so none of them has old clients: only the epochs of transaction.version 2 tell what is late."""
NOT_WITH_TRANSACTIONS = frozenset({"change_min_isr", "retention", *MOVES, *LED_BY_ADDED})
"""Records may be lost with the first one, and go with the second one before consumers have read them.
Moves often leave a single replica, which takes nothing as min.insync.replicas is 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One seed's choices; printed when it fails."""

    seed: int
    replicas: int = 3
    spares: int = 0
    """Nodes that have no replica at first; reassignments may give them one."""
    min_isr: int = 2
    unclean: bool = False
    reckless: bool = False
    """More machines may lose unsynced data at once than min.insync.replicas covers."""
    loss: float = 0.0
    duplicates: float = 0.0
    slow: float = 0.0
    """Share of messages that take up to `slow_ms`."""
    slow_ms: int = 300
    jitter_ms: int = 6
    fault_every_ms: int = 150
    faults: tuple[str, ...] = ()
    idempotent: int = 2
    plain: int = 1
    consumers: int = 2
    gateways: int = 1
    """Clients ask any of them; images take their own time to each."""
    acks_one: bool = False
    """The plain producers use acks=1."""
    session_ms: int = 600
    grace_ms: int = 50
    log_failures: bool = False
    """Logs fail while their nodes live on, and tell the controller: disks that are full, and a
    part of the disk errors. Otherwise a full disk only refuses, and after an error the node ends."""
    deletes: bool = False
    """Clients ask for DeleteRecords."""
    flush_messages: int = 0
    """The topic's flush.messages; 0 leaves flushes to the kernel."""
    transactions: bool = False
    """Several partitions, with a transaction coordinator and clients of their own."""
    applications: int = 3
    """Transactional ids."""
    old_clients: int = 0
    """Of these, whose producers know transaction.version 0 only (before KIP-890)."""
    transaction_timeout_ms: int = 800
    producer_expiration_ms: int = NEVER_MS
    """producer.id.expiration.ms of the partitions."""
    lag_ms: int = 300
    tick_ms: int = 100
    produce_ms: int = 40

    @property
    def may_lose(self) -> bool:
        """min.insync.replicas - 1 lost disks at once are borne; with the rest, records may go."""
        one = self.min_isr < 2 or "change_min_isr" in self.faults
        return self.unclean or self.reckless or one


def draw(seed: int, *, transactions: bool = False) -> Options:
    """The options of a seed; with transactions if it has them, or if that is asked for."""
    chance = random.Random(seed * 86_028_121 + TRANSACTIONAL_SEED)
    options = _draw(seed)
    if chance.random() < TRANSACTIONAL_SHARE or transactions:
        return _with_transactions(options, chance)
    return options


def _with_transactions(options: Options, chance: random.Random) -> Options:
    """No record may be lost or deleted: then all can be judged to the end."""
    made = _without_losses(options, chance)
    expiring = random.Random(options.seed * 22_695_477 + 13)
    if expiring.random() < EXPIRING_SHARE:
        expiration_ms = expiring.choice((60, 200, 600))
        return replace(made, old_clients=0, producer_expiration_ms=expiration_ms)
    return made


def _without_losses(options: Options, chance: random.Random) -> Options:
    return replace(
        options,
        transactions=True,
        applications=chance.choice((3, 5, 8)),
        produce_ms=chance.choice((1, 10, 40)),
        old_clients=chance.choice((0, 1, 2, 8)),
        transaction_timeout_ms=chance.choice((400, 800, 1_500)),
        replicas=chance.choice((2, 3, 3, 3)),
        spares=0,
        min_isr=2,
        fault_every_ms=chance.choice((400, 1_200, 3_000)),
        unclean=False,
        reckless=False,
        deletes=False,
        idempotent=0,
        plain=0,
        acks_one=False,
        consumers=0,
        faults=tuple(name for name in options.faults if name not in NOT_WITH_TRANSACTIONS)
        or ("kill",),
    )


def _draw(seed: int) -> Options:
    rng = random.Random(seed * 2_654_435_761 + 1)
    replicas = rng.choice((3, 3, 3, 3, 2, 4, 5))
    share = rng.uniform(0.15, 0.7)
    faults = tuple(name for name in FAULTS if rng.random() < share)
    lossy = rng.random() < 0.5
    # By a generator of its own, so that the other seeds stay what they were.
    moves = random.Random(seed * 40_503 + 17)
    elsewhere = random.Random(seed * 48_271 + 5)
    spares = 0
    if moves.random() < MOVING_SHARE:
        faults += MOVES
        spares = moves.choice((0, 1, 2))
        if random.Random(seed * 16_807 + 11).random() < LED_BY_ADDED_SHARE:
            faults += LED_BY_ADDED
    failing = random.Random(seed * 69_069 + 14598)
    log_failures = failing.random() < FAILING_SHARE
    if failing.random() < DAMAGED_SHARE:
        faults += DAMAGES
    disks = random.Random(seed * 48_259 + 3)
    if disks.random() < HANGING_SHARE:
        faults += HANGS
    if disks.random() < LEAVING_SHARE:
        faults += LEAVING
    flush_messages = disks.choice((1, 1, 2, 5)) if disks.random() < FLUSHING_SHARE else 0
    return Options(
        seed=seed,
        replicas=replicas,
        spares=spares,
        min_isr=min(rng.choice((1, 2, 2, 2, 3)), replicas),
        unclean=rng.random() < 0.08,
        reckless=rng.random() < 0.12,
        loss=rng.choice((0.01, 0.03, 0.1)) if lossy else 0.0,
        duplicates=rng.choice((0.0, 0.02, 0.1)),
        slow=rng.choice((0.0, 0.02, 0.15)),
        slow_ms=rng.choice((50, 300, 1_500)),
        jitter_ms=rng.choice((1, 6, 30)),
        fault_every_ms=rng.choice((40, 100, 200)),
        faults=faults or ("kill",),
        idempotent=rng.choice((1, 2, 3)),
        plain=rng.choice((0, 1, 2)),
        acks_one=rng.random() < 0.3,
        log_failures=log_failures,
        flush_messages=flush_messages,
        deletes=random.Random(seed * 75_403 + DELETING_SEED).random() < DELETING_SHARE,
        consumers=rng.choice((1, 2)),
        gateways=2 if elsewhere.random() < SECOND_GATEWAY_SHARE else 1,
        lag_ms=rng.choice((150, 300, 600)),
        produce_ms=rng.choice((10, 30, 60)),
    )
