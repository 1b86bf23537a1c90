"""While a partition is reassigned, every eligible leader has everything that was committed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.controller.core.election import Candidates, after_isr_change, elect
from highwater.controller.core.reassign import cancel, completed, is_moving, settled, start
from highwater.model.cluster import PartitionState
from highwater.model.ids import NO_NODE, NodeId
from tests.support.controller_images import topic_state

NODES = 6
ALL = tuple(NodeId(n) for n in range(1, NODES + 1))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.permutations(ALL), st.integers(1, 4)),
        st.tuples(st.just("cancel")),
        st.tuples(st.just("joins"), st.sampled_from(ALL)),
        st.tuples(st.just("lags"), st.sampled_from(ALL)),
        st.tuples(st.just("dies"), st.sampled_from(ALL)),
        st.tuples(st.just("drains"), st.sampled_from(ALL)),
        st.tuples(st.just("returns"), st.sampled_from(ALL)),
        st.tuples(st.just("commit")),
    ),
    max_size=40,
)


class Model:
    """One partition, its nodes, and how much of the committed log each of them has."""

    def __init__(self, factor: int, min_isr: int) -> None:
        (self.state,) = topic_state("t", [tuple(ALL[:factor])]).partitions
        self.min_isr = min_isr
        self.alive = set(ALL)
        self.draining: set[NodeId] = set()
        self.committed = 0
        self.has = dict.fromkeys(ALL, 0)

    @property
    def candidates(self) -> Candidates:
        return Candidates(alive=frozenset(self.alive), draining=frozenset(self.draining))

    def become(self, after: PartitionState | None) -> None:
        before = self.state
        if after is None:
            return
        assert after.partition_epoch == before.partition_epoch + 1
        assert after.leader_epoch >= before.leader_epoch
        gone = set(before.replicas) - set(after.replicas)
        if after.leader != before.leader or gone:
            assert after.leader_epoch > before.leader_epoch
        for node in gone:
            self.has[node] = -1  # Its log is deleted.
        self.state = after
        self.check()

    def check(self) -> None:
        state = self.state
        replicas = set(state.replicas)
        assert len(replicas) == len(state.replicas) > 0
        adding, removing = set(state.adding_replicas), set(state.removing_replicas)
        assert adding | removing <= replicas
        assert not adding & removing
        assert removing < replicas
        isr, eligible = set(state.isr), set(state.eligible_leaders)
        assert isr
        assert isr <= replicas
        assert eligible <= replicas - isr
        assert state.leader == NO_NODE or (state.leader in isr and state.leader in self.alive)
        assert state.last_known_leader == NO_NODE or state.last_known_leader in replicas
        for node in isr | eligible:
            assert self.has[node] == self.committed, f"{node} may lead and lacks records"

    # ---- what happens ----

    def start(self, order: list[NodeId], count: int) -> None:
        target = tuple(order[:count])
        self.become(start(self.state, target, self.candidates, min_isr=self.min_isr))

    def cancel(self) -> None:
        if is_moving(self.state):
            self.become(cancel(self.state, self.candidates, min_isr=self.min_isr))

    def joins(self, node: NodeId) -> None:
        state = self.state
        able = node in self.alive and node not in self.draining
        if state.leader != NO_NODE and able and node in set(state.replicas) - set(state.isr):
            self.has[node] = self.committed
            self._change_isr((*state.isr, node))

    def lags(self, node: NodeId) -> None:
        state = self.state
        if state.leader not in (NO_NODE, node) and node in state.isr:
            self._change_isr(tuple(n for n in state.isr if n != node))

    def _change_isr(self, isr: tuple[NodeId, ...]) -> None:
        after = after_isr_change(self.state, isr, min_isr=self.min_isr)
        self.become(completed(after, self.candidates, min_isr=self.min_isr))

    def dies(self, node: NodeId) -> None:
        self.alive.discard(node)
        self._elect()

    def drains(self, node: NodeId) -> None:
        self.draining.add(node)
        self._elect()

    def returns(self, node: NodeId) -> None:
        self.draining.discard(node)
        self.alive.add(node)
        self._elect()

    def _elect(self) -> None:
        after = elect(self.state, self.candidates, min_isr=self.min_isr)
        self.become(settled(self.state, after, self.candidates, min_isr=self.min_isr))

    def commit(self) -> None:
        state = self.state
        enough = len(state.isr) >= min(self.min_isr, len(state.replicas))
        if state.leader != NO_NODE and enough:
            self.committed += 1
            for node in state.isr:
                self.has[node] = self.committed
            self.check()


@settings(max_examples=300, deadline=None)
@given(factor=st.integers(1, 3), min_isr=st.integers(1, 3), steps=STEPS)
def test_committed_records_survive_reassignments_and_failures(
    factor: int, min_isr: int, steps: list[tuple]
) -> None:
    model = Model(factor, min_isr)
    wanted = model.state.replicas
    for name, *arguments in steps:
        getattr(model, name)(*arguments)
        if name == "start":
            wanted = tuple(arguments[0][: arguments[1]])
        elif name == "cancel" and not is_moving(model.state):
            wanted = model.state.replicas
    for node in ALL:
        model.returns(node)
    for node in ALL:
        model.joins(node)
    assert not is_moving(model.state), "with everybody back every move is completed"
    assert model.state.replicas == wanted
    assert set(model.state.isr) == set(wanted)


def test_the_model_finds_a_replica_that_goes_too_early() -> None:
    """Without the rule of enough in-sync replicas the check fails: records are lost."""
    model = Model(3, 2)
    model.lags(ALL[2])
    model.commit()
    careless = replace(
        model.state,
        replicas=(ALL[0], ALL[2]),
        isr=(ALL[0],),
        eligible_leaders=(ALL[2],),
        leader_epoch=model.state.leader_epoch + 1,
        partition_epoch=model.state.partition_epoch + 1,
    )
    with pytest.raises(AssertionError, match="lacks records"):
        model.become(careless)
