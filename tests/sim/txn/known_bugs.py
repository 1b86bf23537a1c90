"""The known bugs of transactions, each with its recorded seed."""

from __future__ import annotations

from functools import partial

from tests.sim.bug import Bug
from tests.sim.txn import bugs

_bug = partial(Bug, transactional=True)

TRANSACTIONAL_BUGS = (
    _bug(
        name="takes-former-coordinators",
        seed=289,
        producer_states=bugs.TakesFormerCoordinators,
        source="R21, KIP-98",
    ),
    _bug(
        name="takes-late-markers",
        seed=2,
        producer_states=bugs.TakesLateMarkers,
        source="R21, KIP-890",
    ),
    _bug(
        name="lets-any-batch-begin",
        seed=3,
        producer_states=bugs.LetsAnyBatchBegin,
        verified_appends=bugs.AsksForNoOldClient,
        source="R22, KIP-890",
    ),
    _bug(
        name="snaps-no-transactions",
        seed=0,
        producer_states=bugs.SnapsNoTransactions,
        source="R19",
    ),
    _bug(
        name="ignores-open-transactions",
        seed=0,
        producer_states=bugs.states_with(bugs.IgnoresOpen),
        source="R19",
    ),
    _bug(
        name="ignores-uncommitted-markers",
        seed=0,
        producer_states=bugs.states_with(bugs.IgnoresUncommittedMarkers),
        source="R19",
    ),
    _bug(
        name="forgets-indexes",
        seed=19,
        producer_states=bugs.states_with(bugs.ForgetsIndexes),
        source="R9, R20, a start after producers have expired",
    ),
    _bug(
        name="forgets-who-tells",
        seed=102,
        producer_states=bugs.states_with(bugs.ForgetsWhoTells),
        source="R19, a start after producers have expired",
    ),
    _bug(
        name="tells-no-aborts",
        seed=0,
        producer_states=bugs.TellsNoAborts,
        source="R20",
    ),
    _bug(
        name="answers-before-the-decision",
        seed=2,
        coordinator=bugs.AnswersAtOnce,
        source="R10, R21: fencing that is lost with a leader",
    ),
    _bug(
        name="marks-before-the-decision",
        seed=0,
        coordinator=bugs.SendsMarkersAtOnce,
        source="R21",
    ),
    _bug(
        name="forgets-prepared",
        seed=0,
        coordinator=bugs.with_shard(bugs.ForgetsPrepared),
        source="R22, KIP-98",
    ),
    _bug(
        name="forgets-fencing",
        seed=8,
        coordinator=bugs.with_shard(bugs.ForgetsFencing),
        source="R10, KIP-98",
    ),
)
