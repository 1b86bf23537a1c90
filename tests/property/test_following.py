"""However a leader's batches are cut into answers, the follower gets the same log.

The logs have the same bytes, leader epochs and producers, also if answers are repeated, batches are
damaged on the way, and a disk hangs at times.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.partition.core import invariants
from highwater.partition.core.producer_entry import ProducerEntry
from highwater.partition.data_plane.policy import AppendPolicy
from highwater.partition.data_plane.replica import PartitionReplica
from highwater.partition.replication.follower.following import (
    Outcome,
    UnsoundAnswerError,
    append_from_leader,
    asked_of,
)
from highwater.partition.replication.follower.late_rows import LateRows
from highwater.partition.replication.rows import NONE, Answered
from highwater.partition.storage.config import LogConfig
from highwater.partition.storage.log.environment import InlineEnvironment
from highwater.partition.storage.log.log import PartitionLog
from tests.support.log_batches import ManualClock, append, make_batch, open_log, slice_bytes
from tests.unit.hop.sinks import TOPIC
from tests.unit.partition.data_plane.roles import NODE, follow

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, segment_index_bytes=120)
LEADER = 2
EPOCH_MAX = 9


@dataclass(frozen=True)
class Group:
    """Batches of one append."""

    records: tuple[int, ...]
    """Records of each batch."""
    new_epoch: bool
    producer: int
    """-1: not idempotent."""


@dataclass(frozen=True)
class Fetch:
    """How one answer arrives."""

    max_bytes: int
    high_watermark_lag: int
    torn: bool
    again: bool
    stalled: bool


groups = st.builds(
    Group,
    records=st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple),
    new_epoch=st.booleans(),
    producer=st.sampled_from([-1, 11, 12]),
)
fetches = st.builds(
    Fetch,
    max_bytes=st.sampled_from([0, 90, 300, 1000, 100_000]),
    high_watermark_lag=st.integers(0, 3),
    torn=st.sampled_from([False, False, False, True]),
    again=st.sampled_from([False, False, True]),
    stalled=st.sampled_from([False, False, True]),
)


def lead(log: PartitionLog, history: list[Group]) -> None:
    """Appends as a leader does, over several epochs."""
    epoch = 0
    sequences = {11: 0, 12: 0}
    for number, group in enumerate(history):
        epoch = min(epoch + group.new_epoch, EPOCH_MAX)
        batches = []
        for count in group.records:
            batch = make_batch(
                timestamps=tuple(range(number, number + count)),
                producer_id=group.producer,
                producer_epoch=0 if group.producer >= 0 else -1,
                base_sequence=sequences.get(group.producer, -1),
                value=b"v" * (7 * number % 50),
            )
            if group.producer >= 0:
                sequences[group.producer] += count
            batches.append(batch)
        append(log, *batches, epoch=epoch)


def answer(replica: PartitionReplica, leader: PartitionLog, fetch: Fetch) -> Answered:
    asked = asked_of(replica)
    assert asked is not None
    found = leader.reader.read(
        asked.fetch_offset,
        fetch.max_bytes,
        end_offset=leader.log_end_offset,
        min_one_batch=True,
    )
    return Answered(
        *asked.place,
        0,
        max(leader.log_end_offset - fetch.high_watermark_lag, 0),
        0,
        leader.log_end_offset,
        NONE,
        NONE,
        memoryview(slice_bytes(found)),
    )


def torn(answered: Answered) -> Answered:
    """Changes one byte of the last batch."""
    records = bytearray(answered.records)
    records[-1] ^= 0x40
    return answered._replace(records=memoryview(records))


def batches_of(log: PartitionLog) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(Path(log.directory).glob("*.log")))


def producers_of(log: PartitionLog) -> list[ProducerEntry]:
    return sorted(log.producers.states.history(), key=attrgetter("producer_id", "last_offset"))


@settings(max_examples=60, deadline=None)
@given(history=st.lists(groups, min_size=1, max_size=12), ways=st.lists(fetches, min_size=1))
def test_a_follower_ends_with_its_leaders_log(history: list[Group], ways: list[Fetch]) -> None:
    root = Path(tempfile.mkdtemp(prefix="following-"))
    try:
        leader = open_log(root / "leader-0", CONFIG)
        lead(leader, history)
        environment = InlineEnvironment()
        own = open_log(root / "follower-0", CONFIG, environment=environment)
        replica = PartitionReplica(
            topic_id=TOPIC, topic_name="orders", partition=0, log=own, log_dir=0, node=NODE,
            policy=AppendPolicy(), clock=ManualClock(), on_log_failure=lambda _replica, _error: None,
        )  # fmt: skip
        follow(replica, LEADER, EPOCH_MAX)
        late = LateRows(resume=lambda _replica: None, flush=lambda _log, done: done())
        step = 0
        while own.log_end_offset < leader.log_end_offset:
            fetch = ways[step % len(ways)]
            # If all were torn, the test would never end.
            is_torn = fetch.torn and step < 2 * len(ways)
            step += 1
            answered = answer(replica, leader, fetch)
            environment.stall.stalled = fetch.stalled
            before = own.log_end_offset
            if is_torn:
                try:
                    append_from_leader(replica, torn(answered), late)
                except UnsoundAnswerError:
                    pass
                else:
                    assert fetch.stalled, "dropped before it was looked at, or unsound"
                continue
            outcome = append_from_leader(replica, answered, late)
            assert outcome in {Outcome.DONE, Outcome.LATE}
            assert own.log_end_offset > before
            assert replica.core.log_end_offset == own.log_end_offset
            assert replica.high_watermark <= own.log_end_offset
            invariants.check(replica.core)
            invariants.check_epochs(replica.core)
            if fetch.again:
                end = own.log_end_offset
                assert append_from_leader(replica, answered, late) is Outcome.DONE
                assert own.log_end_offset == end
        assert batches_of(own) == batches_of(leader)
        assert own.epochs.cache.entries() == leader.epochs.cache.entries()
        assert producers_of(own) == producers_of(leader)
        own.close(clean=False)
        again = open_log(root / "follower-0", CONFIG)
        assert again.log_end_offset == leader.log_end_offset
        assert again.epochs.cache.entries() == leader.epochs.cache.entries()
        again.close(clean=False)
        leader.close(clean=False)
    finally:
        shutil.rmtree(root)
