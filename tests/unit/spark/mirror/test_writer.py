"""One partition's copy: equal to its source whenever the writer dies, and whoever writes beside it."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from confluent_kafka import KafkaError, KafkaException
from pyspark.serializers import BatchedSerializer, CPickleSerializer

from highwater.spark.mirror import writer as module
from highwater.spark.mirror.clients import Trouble
from highwater.spark.mirror.naming import offsets_topic, transactional_id
from highwater.spark.mirror.offset_log import read_part
from highwater.spark.mirror.offset_map import OffsetMap
from highwater.spark.mirror.offset_records import Sync
from highwater.spark.mirror.plan import Work
from highwater.spark.mirror.writer import Place, Written, note_end, write, write_rows
from tests.support.fake_target import FakeTarget, Killed

OFFSETS = offsets_topic("a")
WORK = Work(
    topic="t", partition=0, start=0, end=12, source_id="s", copy="a.t", copy_id="c",
    batch_bytes=500, newest=None,
)  # fmt: skip
# Offsets 4, 9 and 11 have no record: markers, and what compaction took.
ROWS = [
    ("t", 0, at, 1000 + at, bytearray(b"k%d" % at), bytearray(b"v%d" % at), None)
    for at in (0, 1, 2, 3, 5, 6, 7, 8, 10)
]


@pytest.fixture
def target() -> FakeTarget:
    return FakeTarget()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECORDS_MAX", 4)


def place(target: Any, read_to: int = 0) -> Place:
    return Place(clients=target, alias="a", read_to=read_to)


def values(target: FakeTarget) -> list[bytes | None]:
    return [entry.value for _, entry in target.committed("a.t", 0)]


def known(target: FakeTarget) -> OffsetMap:
    found = OffsetMap()
    found.apply(read_part(target, OFFSETS, 0, wait_s=0).records)
    return found


def wanted() -> list[bytes]:
    return [bytes(row[5]) for row in ROWS]


def test_records_and_syncs(target: FakeTarget):
    done = write(iter(ROWS), WORK, place(target))
    assert done == Written(
        topic="t", partition=0, next=11, records=9, size_bytes=sum(len(row[4] + row[5]) for row in ROWS),
        transactions=3,
    )  # fmt: skip
    assert values(target) == wanted()
    assert target.batch_bytes == [500]
    assert [(entry.key, entry.time_ms) for _, entry in target.committed("a.t", 0)] == [
        (bytes(row[4]), row[3]) for row in ROWS
    ]
    assert known(target).syncs("a.t", 0) == [
        Sync(
            topic="a.t", partition=0, number=number, source_id="s", copy_id="c",
            source_first=first, source_next=after, copy_first=copy, copy_next=copy + records,
            records=records,
        )
        for number, first, after, copy, records in [(1, 0, 4, 0, 4), (2, 4, 9, 5, 4), (3, 9, 11, 10, 1)]
    ]  # fmt: skip


def test_nulls_and_headers(target: FakeTarget):
    headers = [("h", bytearray(b"1")), ("h", None), ("", bytearray())]
    rows = [("t", 0, 0, 5, None, None, headers), ("t", 0, 1, 0, bytearray(), bytearray(), [])]
    done = write(iter(rows), WORK, place(target))
    (_, first), (_, second) = target.committed("a.t", 0)
    assert (first.key, first.value, first.headers) == (
        None,
        None,
        [("h", b"1"), ("h", None), ("", b"")],
    )
    assert (second.key, second.value, second.headers) == (b"", b"", [])
    # For the client 0 is now.
    assert (second.time_ms, done.moved) == (1, 1)


def received(rows: list[Any], *, is_whole: bool) -> Any:
    """The rows as a task gets them; Spark's reader may fail behind them, of which Python sees the end only."""
    stream = BytesIO()
    serializer = BatchedSerializer(CPickleSerializer(), 2)
    serializer.dump_stream(rows, stream)
    if is_whole:
        stream.write((-1).to_bytes(4, "big", signed=True))
    stream.seek(0)
    return serializer.load_stream(stream)


@pytest.mark.parametrize("came", range(len(ROWS) + 1))
def test_rows_that_did_not_come_are_not_noted_as_copied(target: FakeTarget, came: int):
    works = {("t", 0): WORK}
    for done in write_rows(received(ROWS[:came], is_whole=False), works=works, place=place(target)):
        assert (done.failure, done.next) == (None, ROWS[came - 1][2] + 1)
    # Spark fails the task and repeats it, with the same work.
    (done,) = write_rows(received(ROWS, is_whole=True), works=works, place=place(target))
    assert (done.records, done.skipped) == (len(ROWS) - came, came)
    assert values(target) == wanted()
    # And now the driver knows that these were all.
    assert note_end(WORK, place(target)).next == 12
    assert values(target) == wanted()


def test_the_end_of_a_range_behind_its_last_record(target: FakeTarget):
    write(iter(ROWS), WORK, place(target))
    assert note_end(WORK, place(target)) == Written(topic="t", partition=0, next=12, transactions=1)
    last = known(target).syncs("a.t", 0)[-1]
    assert (last.source_first, last.source_next, last.records) == (11, 12, 0)
    assert (last.copy_first, last.copy_next) == (11, 11)
    # Another mirror of this alias is further by now: its sync stays.
    write([("t", 0, 12, 1, None, b"", None)], replace(WORK, start=12, end=13), place(target))
    again = note_end(WORK, place(target))
    assert (again.transactions, again.next) == (0, 13)


def test_a_range_without_records_moves_the_position_on(target: FakeTarget):
    assert note_end(WORK, place(target)).transactions == 1
    newest = known(target).newest("a.t", 0)
    assert newest is not None
    assert (newest.source_next, newest.records, newest.copy_next) == (12, 0, 0)
    # And is not noted twice.
    again = note_end(replace(WORK, newest=newest), place(target))
    assert (again.transactions, again.next) == (0, 12)


def test_killed_at_every_step_and_started_again():
    steps = 0
    deaths = 0
    while True:
        target = FakeTarget()
        target.steps_left = steps
        try:
            write(iter(ROWS), WORK, place(target))
            note_end(WORK, place(target))
        except Killed:
            deaths += 1
        else:
            break
        finally:
            target.steps_left = -1
        # The plan was made before: the task itself has to learn what is there.
        done = write(iter(ROWS), WORK, place(target))
        assert done.failure is None
        assert done.records + done.skipped == len(ROWS)
        ended = note_end(WORK, place(target))
        assert (ended.failure, ended.next) == (None, 12)
        assert values(target) == wanted(), f"killed at step {steps}"
        syncs = known(target).syncs("a.t", 0)
        assert [sync.number for sync in syncs] == list(range(1, len(syncs) + 1))
        assert [each.source_first for each in syncs[1:]] == [
            each.source_next for each in syncs[:-1]
        ]
        steps += 1
    assert deaths > 30


def test_of_two_writers_one_goes_on(target: FakeTarget):
    def rows() -> Any:
        for number, row in enumerate(ROWS):
            if number == 6:
                assert write(iter(ROWS), WORK, place(target)).records == 5
            yield row

    done = write(rows(), WORK, place(target))
    assert done.failure is not None
    assert done.failure.trouble is Trouble.TAKEN_OVER
    assert done.records == 4
    assert values(target) == wanted()


def test_a_writer_of_other_topics_of_these_names(target: FakeTarget):
    write(iter(ROWS), replace(WORK, source_id="newer"), place(target))
    done = write(iter(ROWS), WORK, place(target))
    assert done.failure is not None
    assert done.failure.trouble is Trouble.TAKEN_OVER
    # What the plan knew of is another matter: the topic was made anew.
    newest = known(target).newest("a.t", 0)
    assert newest is not None
    anew = replace(WORK, newest=newest)
    done = write(iter(ROWS), anew, place(target))
    assert (done.failure, done.records) == (None, 9)
    last = known(target).newest("a.t", 0)
    assert last is not None
    assert (last.number, last.source_id) == (newest.number + 3, "s")
    # The end of a range is none of theirs, either.
    write(iter(ROWS), replace(WORK, source_id="newest", newest=last), place(target))
    found = note_end(anew, place(target)).failure
    assert found is not None
    assert found.trouble is Trouble.TAKEN_OVER


def test_it_goes_on_where_the_plan_says_if_offsets_are_gone(target: FakeTarget):
    write(ROWS[:2], replace(WORK, end=2), place(target))
    done = write(ROWS[6:], replace(WORK, start=7), place(target))
    assert (done.records, done.next) == (3, 11)
    assert [each.source_first for each in known(target).syncs("a.t", 0)] == [0, 7]


def test_a_record_that_is_too_large_is_named(target: FakeTarget):
    target.largest["a.t"] = 5
    rows = [*ROWS[:5], ("t", 0, 6, 1, None, bytearray(b"x" * 6), None)]
    done = write(iter(rows), WORK, place(target))
    assert done.failure is not None
    assert done.failure.trouble is Trouble.REFUSED
    assert "the record at offset 6 of t-0, of 6 bytes, is too large" in done.failure.text
    # The transaction before it stays, the one with it is aborted.
    assert (done.records, done.next) == (4, 4)
    assert values(target) == wanted()[:4]
    assert target.open == {}


def test_errors_of_the_client_are_in_the_result(
    target: FakeTarget, monkeypatch: pytest.MonkeyPatch
):
    def away(self: Any, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    monkeypatch.setattr("tests.support.fake_target.FakeProducer.init_transactions", away)
    done = write(iter(ROWS), WORK, place(target))
    assert done.failure is not None
    assert done.failure.trouble is Trouble.AWAY
    assert done.failure.text.startswith("copy a.t-0 at target:1: ")


def test_a_task_finds_its_work_by_its_first_row(target: FakeTarget):
    works = {("t", 0): WORK, ("t", 1): replace(WORK, partition=1)}
    (done,) = write_rows(iter(ROWS), works=works, place=place(target))
    assert done.records == 9
    assert transactional_id("a", "t", 0) in target.epochs
    assert list(write_rows(iter([]), works=works, place=place(target))) == []
