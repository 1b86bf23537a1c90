"""When what an image consists of is taken out of the collector's sight."""

from __future__ import annotations

import gc

import pytest

from highwater.runtime.collector import (
    FREEZE_PARTITIONS,
    THAW_PARTITIONS,
    FreezePolicy,
    collection_paused,
)


class Collector:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def policy(self) -> FreezePolicy:
        return FreezePolicy(lambda: self.calls.append("freeze"), lambda: self.calls.append("thaw"))


def test_a_large_image_is_frozen_at_once_a_small_one_never() -> None:
    collector = Collector()
    policy = collector.policy()
    policy.note_partitions(new=FREEZE_PARTITIONS - 1)
    assert collector.calls == []
    collector.policy().note_partitions(new=FREEZE_PARTITIONS)
    assert collector.calls == ["freeze"]


def test_small_changes_add_up() -> None:
    collector = Collector()
    policy = collector.policy()
    for _ in range(3 * 4 + 1):
        policy.note_partitions(new=FREEZE_PARTITIONS // 4)
    assert collector.calls == ["freeze"] * 3


def test_what_belonged_to_deleted_partitions_can_be_collected() -> None:
    collector = Collector()
    policy = collector.policy()
    policy.note_partitions(new=0, removed=THAW_PARTITIONS - 1)
    assert collector.calls == []
    policy.note_partitions(new=0, removed=1)
    policy.note_partitions(new=0, removed=1)
    assert collector.calls == ["thaw"]


def test_nothing_is_collected_while_collection_is_paused() -> None:
    def broken() -> None:
        with collection_paused():
            assert not gc.isenabled()
            raise ValueError("broken")

    assert gc.isenabled()
    with pytest.raises(ValueError, match="broken"):
        broken()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
