"""The lag timer calls leaders with followers, thousands of them in small parts."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from highwater.partition.core.replica_events import LagChecked
from highwater.partition.replication.leader import lag_timer
from highwater.partition.replication.leader.lag_timer import LagTimer
from tests.support.log_batches import ManualClock


class Replica:
    """A replica as the timer sees it; `followers` is 0 for one that does not lead."""

    def __init__(self, followers: int = 2) -> None:
        self.core = SimpleNamespace(progress=(None,) * followers)
        self.heard: list[LagChecked] = []
        self.expired_at: list[int] = []
        self.answers = SimpleNamespace(expire=self.expired_at.append)
        self.failed = False

    def handle(self, event: LagChecked) -> None:
        self.heard.append(event)

    def fail(self) -> None:
        self.failed = True


class Broken(Replica):
    def handle(self, event: LagChecked) -> None:
        raise ZeroDivisionError("a bug")


def timer(replicas: list[Any], *, lag_ms_max: int = 10_000, bugs: list[Any] | None = None) -> Any:
    return LagTimer(
        lambda: replicas,
        lag_ms_max=lag_ms_max,
        clock=ManualClock(700),
        on_bug=lambda _replica, error: None if bugs is None else bugs.append(error),
    )


def test_only_leaders_with_followers_are_asked() -> None:
    alone, leader = Replica(0), Replica()
    ((part),) = timer([alone, leader]).parts()
    assert part == [leader]


def test_no_leader() -> None:
    assert timer([]).parts() == [[]], "a round lasts as long all the same"


def test_a_few_share_a_part_and_thousands_are_spread() -> None:
    few = timer([Replica() for _ in range(lag_timer.PART_MIN)]).parts()
    assert [len(part) for part in few] == [lag_timer.PART_MIN]
    replicas = [Replica() for _ in range(5_001)]
    many = timer(replicas).parts()
    assert len(many) <= lag_timer.TICKS_MAX
    assert max(map(len, many)) == 51
    assert [replica for part in many for replica in part] == replicas, "each of them once"


def test_a_bug_of_one_replica_does_not_stop_the_timer_for_others() -> None:
    bugs: list[Any] = []
    good, bad = Replica(), Broken()
    timer([], bugs=bugs).check([bad, good])
    assert good.heard == [LagChecked(now_ms=700)]
    assert bad.failed
    assert [str(bug) for bug in bugs] == ["a bug"]


async def test_every_half_of_the_time() -> None:
    replica = Replica()
    running = asyncio.create_task(timer([replica], lag_ms_max=100).run())
    await asyncio.sleep(0.04)
    assert replica.heard == []
    async with asyncio.timeout(5):
        while len(replica.heard) < 3:
            await asyncio.sleep(0.005)
    running.cancel()


def test_expired_appends_are_dropped() -> None:
    leader = Replica()
    timer([leader]).check([leader])
    assert leader.expired_at == [700]
