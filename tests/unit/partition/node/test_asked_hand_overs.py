"""A leader that is asked to hand over while its node lives on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.kafka.error_codes import ErrorCode
from highwater.partition.core.replica_events import IneligibleChanged
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.node import asked_hand_overs as module
from highwater.partition.node.asked_hand_overs import AskedHandOver, AskedHandOvers
from highwater.runtime.logging import silent_logger
from highwater.runtime.tasks import TaskOwner
from tests.support.log_batches import make_batch
from tests.unit.partition.data_plane.node import EPOCH, TOPIC, Node
from tests.unit.partition.data_plane.roles import follower_fetched, image_says

KEY = (TOPIC, 0)
ASKED = AskedHandOver(key=KEY, leader_epoch=EPOCH, successor=2)


class Leader(Node):
    def __init__(self, directory: Path, tasks: TaskOwner, catch_up_s: float = 5.0) -> None:
        super().__init__(directory)
        self.replica: PartitionReplica = self.add(lead=False)
        image_says(self.replica, leader=1, epoch=EPOCH, replicas=(1, 2, 3))
        self.told = 0
        self.internal = False
        self.hand_overs = AskedHandOvers(
            find=self.plane.replicas.get,
            is_internal=lambda _: self.internal,
            answered=self.tell,
            catch_up_s=catch_up_s,
            tasks=tasks,
            log=silent_logger(),
        )

    def tell(self) -> None:
        self.told += 1

    @property
    def ready(self) -> list[bool]:
        return [answer.ready for answer in self.hand_overs.answers]


@pytest.fixture
async def tasks() -> AsyncIterator[TaskOwner]:
    errors: list[BaseException] = []
    owner = TaskOwner(lambda _name, error: errors.append(error))
    yield owner
    await owner.close(timeout_s=1)
    assert errors == []


async def until(is_so) -> None:
    async with asyncio.timeout(5):
        while not is_so():
            await asyncio.sleep(0.001)


async def test_a_leader_is_ready_when_its_successor_has_everything_and_no_append_waits(
    tmp_path: Path, tasks: TaskOwner
) -> None:
    leader = Leader(tmp_path, tasks)
    waiting = leader.append(make_batch(), acks=-1)
    leader.hand_overs.ask([ASKED, ASKED])
    leader.hand_overs.ask([ASKED])
    await until(lambda: leader.replica.resigned)
    follower_fetched(leader.replica, 2, 1)
    await asyncio.sleep(0.02)
    assert leader.ready == [], "acks=all still waits for node 3"
    follower_fetched(leader.replica, 3, 1)
    assert waiting.codes == {0: 0}
    await until(lambda: leader.ready == [True])
    assert leader.told == 1
    held = leader.append(make_batch())
    assert held.codes == {}
    image_says(leader.replica, leader=2, epoch=EPOCH + 1, replicas=(1, 2, 3))
    assert held.codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    assert held.results[0][2].leader_epoch == EPOCH + 1
    await until(lambda: leader.ready == [])
    image_says(leader.replica, leader=1, epoch=EPOCH + 2, replicas=(1, 2, 3))
    assert leader.append(make_batch(), epoch=EPOCH + 2).codes == {0: 0}


async def test_a_leader_goes_on_if_its_successor_lags(tmp_path: Path, tasks: TaskOwner) -> None:
    leader = Leader(tmp_path, tasks, catch_up_s=0.02)
    leader.append(make_batch())
    leader.hand_overs.ask([ASKED])
    await until(lambda: leader.replica.resigned)
    held = [leader.append(make_batch()), leader.append(make_batch())]
    await until(lambda: leader.ready == [False])
    assert [sink.codes for sink in held] == [{0: 0}, {0: 0}]
    assert [sink.offsets for sink in held] == [{0: 1}, {0: 2}], "in their order"


async def test_a_leader_goes_on_if_no_successor_is_elected(
    tmp_path: Path, tasks: TaskOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ELECTED_S", 0.02)
    leader = Leader(tmp_path, tasks)
    follower_fetched(leader.replica, 2, 0)
    leader.hand_overs.ask([ASKED])
    await until(lambda: leader.ready == [True])
    held = leader.append(make_batch())
    assert held.codes == {}
    await until(lambda: held.codes == {0: 0})
    assert leader.ready == []


async def test_a_leader_goes_on_when_its_successor_leaves_before_it_has_everything(
    tmp_path: Path, tasks: TaskOwner
) -> None:
    leader = Leader(tmp_path, tasks, catch_up_s=60.0)
    leader.append(make_batch())
    leader.hand_overs.ask([ASKED])
    await until(lambda: leader.replica.resigned)
    held = leader.append(make_batch())
    leader.replica.handle(IneligibleChanged(nodes=frozenset({2})))
    await until(lambda: held.codes == {0: 0})
    assert leader.ready == [False]


async def test_a_leader_goes_on_when_its_successor_leaves_before_its_election(
    tmp_path: Path, tasks: TaskOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ELECTED_S", 60.0)
    leader = Leader(tmp_path, tasks)
    follower_fetched(leader.replica, 2, 0)
    leader.hand_overs.ask([ASKED])
    await until(lambda: leader.ready == [True])
    held = leader.append(make_batch())
    image_says(leader.replica, leader=1, epoch=EPOCH, replicas=(1, 2, 3), isr=(1, 3))
    await until(lambda: held.codes == {0: 0})
    assert leader.ready == []


@pytest.mark.parametrize("lags", [False, True])
async def test_an_answer_is_for_one_successor_and_another_one_is_waited_for_anew(
    tmp_path: Path, tasks: TaskOwner, monkeypatch: pytest.MonkeyPatch, lags: bool
) -> None:
    """The first one's disk is full by now, say, so the controller has elected nobody."""
    monkeypatch.setattr(module, "ELECTED_S", 60.0)
    monkeypatch.setattr(module, "TOLD_S", 60.0)
    leader = Leader(tmp_path, tasks, catch_up_s=0.02 if lags else 60.0)
    leader.append(make_batch())
    if not lags:
        follower_fetched(leader.replica, 2, 1)
    leader.hand_overs.ask([ASKED])
    await until(lambda: leader.ready == [not lags])
    assert [one.successor for one in leader.hand_overs.answers] == [2]
    leader.hand_overs.ask([replace(ASKED, successor=3)])
    held = leader.append(make_batch())
    await until(lambda: leader.ready == [False] if lags else leader.ready == [])
    if not lags:
        assert held.codes == {}, "the first one may be elected yet"
        follower_fetched(leader.replica, 3, 1)
        await until(lambda: leader.ready == [True])
    await until(lambda: [one.successor for one in leader.hand_overs.answers] == [3])
    assert held.codes == ({0: 0} if lags else {})


async def test_a_stopping_node_ends_waits_and_ignores_later_requests(
    tmp_path: Path, tasks: TaskOwner
) -> None:
    leader = Leader(tmp_path, tasks, catch_up_s=60.0)
    leader.append(make_batch())
    leader.hand_overs.ask([ASKED])
    held = leader.append(make_batch())
    leader.hand_overs.stop()
    assert held.codes == {0: 0}
    assert not leader.replica.resigned, "or hand_over would not wait for its followers"
    leader.hand_overs.ask([ASKED])
    assert not leader.replica.resigned


async def test_a_stopping_node_appends_nothing_after_it_said_ready(
    tmp_path: Path, tasks: TaskOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ELECTED_S", 0.02)
    leader = Leader(tmp_path, tasks)
    follower_fetched(leader.replica, 2, 0)
    leader.hand_overs.ask([ASKED])
    await until(lambda: leader.ready == [True])
    held = leader.append(make_batch())
    leader.hand_overs.stop()
    await until(lambda: leader.ready == [])
    assert (held.codes, leader.replica.resigned) == ({}, True)
    image_says(leader.replica, leader=2, epoch=EPOCH + 1, replicas=(1, 2, 3))
    assert held.codes == {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_a_node_that_does_not_lead_in_that_epoch_does_not_answer(
    tmp_path: Path, tasks: TaskOwner
) -> None:
    leader = Leader(tmp_path, tasks)
    unknown = AskedHandOver(key=(TOPIC, 9), leader_epoch=EPOCH, successor=2)
    later = AskedHandOver(key=KEY, leader_epoch=EPOCH + 1, successor=2)
    leader.hand_overs.ask([unknown, later])
    await asyncio.sleep(0.01)
    assert (leader.ready, leader.replica.resigned) == ([], False)


async def test_coordinators_are_not_held_up(tmp_path: Path, tasks: TaskOwner) -> None:
    leader = Leader(tmp_path, tasks)
    leader.internal = True
    leader.hand_overs.ask([ASKED])
    await until(lambda: leader.ready == [True])
    assert leader.append(make_batch()).codes == {0: 0}


async def test_looks_leave_the_loop_most_of_its_time(
    tmp_path: Path, tasks: TaskOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = Leader(tmp_path, tasks, catch_up_s=60.0)
    leader.append(make_batch())
    looks: list[float] = []

    def slow(*_: object) -> None:
        begun_s = time.monotonic()
        while time.monotonic() < begun_s + 0.02:
            continue
        looks.append(begun_s)

    monkeypatch.setattr(leader.hand_overs, "_advance", slow)
    leader.hand_overs.ask([ASKED])
    await until(lambda: len(looks) == 3)
    assert looks[2] - looks[0] >= 2 * 4 * 0.02
