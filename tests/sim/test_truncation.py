"""Why logs are cut by leader epoch: loss and divergence under truncation to the high watermark.

The two stories of KIP-101, first as they went before leader epochs, then as they go here.
"""

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core import replica_events as on
from highwater.partition.core.replica import Replica
from highwater.partition.core.replica_effects import ProposeIsr
from tests.sim.bugs import TruncatesToHighWatermark
from tests.sim.model import LostError, Model, epochs_of

M1, M2, M3 = (1, "m1"), (1, "m2"), (2, "m3")


def follower_restarts_behind(replica: type[Replica]) -> Model:
    """Node 2 has both records, but its high watermark is 1 when it restarts."""
    model = Model(size=2, replica=replica)
    model.produce(1, "m1")
    model.fetch(2)
    model.fetch(2)
    model.produce(1, "m2")
    model.fetch(2)
    model.fetch(2, answered=False)
    assert model.history == [M1, M2], "both are acknowledged"
    assert (model.logs[2], model.replicas[2].high_watermark) == ([M1, M2], 1)
    model.restart(2, checkpoint=1)
    return model


def test_loss_under_truncation_to_the_high_watermark() -> None:
    model = follower_restarts_behind(TruncatesToHighWatermark)
    assert model.logs[2] == [M1], "cut before it asked its leader"
    with pytest.raises(LostError, match="node 2 may lead"):
        model.fence(1)


def test_no_loss_by_leader_epoch() -> None:
    model = follower_restarts_behind(Replica)
    model.fence(1)
    model.learn(2)
    assert model.logs[2] == [M1, M2]
    model.unfence(1)
    model.kill(1, checkpoint=2)
    model.unfence(1)
    model.learn(1)
    model.fetch(1)
    assert model.logs[1] == [M1, M2]


def both_fail_and_the_shorter_log_leads(replica: type[Replica]) -> Model:
    """Node 2 lost m2 with the power, leads all the same, and writes m3 in its place."""
    model = Model(size=2, replica=replica)
    model.produce(1, "m1")
    model.fetch(2)
    model.fetch(2)
    model.produce(1, "m2")
    model.kill(1, checkpoint=2)
    model.learn(2)
    assert model.logs[2] == [M1]
    model.produce(2, "m3")
    assert model.history == [M1, M3]
    model.unfence(1)
    model.replicas[1].high_watermark = 2
    model.learn(1)
    model.fetch(1)
    model.fetch(1)
    return model


def test_divergence_under_truncation_to_the_high_watermark() -> None:
    model = both_fail_and_the_shorter_log_leads(TruncatesToHighWatermark)
    assert model.logs[1] == [M1, M2]
    assert model.logs[2] == [M1, M3], "other records at the same offset, for ever"
    with pytest.raises(LostError):
        model.change_isr(2, lag=False)


def test_no_divergence_by_leader_epoch() -> None:
    model = both_fail_and_the_shorter_log_leads(Replica)
    assert model.logs[1] == model.logs[2] == [M1, M3]
    model.fetch(1)
    assert model.change_isr(2, lag=False)
    assert model.partition.isr == (2, 1)


def test_fast_fail_overs_need_several_rounds() -> None:
    """KIP-279: the follower does not know the epoch that the leader names, nor the one before."""
    model = Model(size=2)
    model.produce(1, "a")
    model.fetch(2)
    model.produce(1, "b")
    model.logs[2] += [(3, "x"), (5, "y")]
    epochs_of(model.replicas[2]).assign(3, 1)
    epochs_of(model.replicas[2]).assign(5, 2)
    model.replicas[2].log_end_offset = 3
    epochs_of(model.replicas[1]).assign(7, 2)
    lengths = []
    while model.logs[2] != model.logs[1]:
        assert model.fetch(2)
        lengths.append(len(model.logs[2]))
        assert len(lengths) <= 4
    assert lengths == [1, 2]


def test_an_unanswered_proposal_outlives_a_refusal() -> None:
    """It was committed, the leader does not know; the refusal of the next one proves nothing."""
    model = Model(size=2)
    model.fence(2)
    model.learn(1)
    model.unfence(2)
    model.learn(2)
    model.fetch(2)
    assert model.change_isr(1, lag=False, answered=False)
    assert model.partition.isr == (1, 2)
    leader = model.replicas[1]
    (again,) = leader.handle(on.IsrDue())
    assert isinstance(again, ProposeIsr)
    refused = on.IsrAnswered(attempt=again.attempt, error_code=ErrorCode.INELIGIBLE_REPLICA)
    assert leader.handle(refused) == []
    model.produce(1, "a")
    assert model.history == [], "2 may be elected, and has not got it"
