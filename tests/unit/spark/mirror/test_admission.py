"""Claims of copies, and what is not admitted; tests/spark mirrors both ways."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.mirror import admission as module
from highwater.spark.mirror.admission import Admission, LoopRefused
from highwater.spark.mirror.clients import CopyRefused
from highwater.spark.mirror.naming import Source, offsets_topic
from highwater.spark.mirror.offset_log import OffsetLog, read_part
from highwater.spark.mirror.offset_records import Copy, OffsetRecord, Withdrawn
from highwater.spark.mirror.request import MirrorRequest
from highwater.spark.mirror.target import TargetTopic
from highwater.spark.topic_admin import ClusterAway
from tests.support.fake_target import FakeProducer, FakeTarget

SOURCE = Source(alias="a", bootstrap="h:1")
BACK = Copy(topic="t", source="x", source_topic="t", path=("T",))
"""Says at the source that its topic is a copy of the target's."""


class FakeCluster:
    def __init__(self) -> None:
        self.there: dict[str, int] = {}
        self.filled: set[str] = set()

    def cluster_id(self) -> str:
        return "T"

    def names(self) -> set[str]:
        return {*self.there, offsets_topic("a"), offsets_topic("b")}

    def topics(self, names: Any) -> dict[str, TargetTopic]:
        return {
            name: TargetTopic(topic_id="c", partitions=self.there[name])
            for name in names
            if name in self.there
        }

    def has_records(self, name: str, partitions: int) -> bool:
        return name in self.filled


class Side:
    """Everything around an admission."""

    def __init__(self) -> None:
        self.target = FakeTarget()
        self.cluster = FakeCluster()
        self.at_source: list[dict[str, Copy]] = []
        """What looks at the source find, the last one for ever."""
        self.told: list[str] = []

    def look(self) -> dict[str, Copy]:
        if len(self.at_source) > 1:
            return self.at_source.pop(0)
        return self.at_source[0] if self.at_source else {}

    def admission(self, source_id: str = "S", **request: Any) -> Admission:
        given = {"topics": (), "pattern": ".*", "offsets_max": 1} | request
        log = OffsetLog(self.target, offsets_topic("a"))
        log.catch_up([])
        return Admission(
            SOURCE, MirrorRequest(**given), source_id=source_id, log=log, target=self.cluster,
            clients=self.target, at_source=self.look, tell=self.told.append,
        )  # fmt: skip

    def claims(self, alias: str = "a") -> dict[str, Copy]:
        log = OffsetLog(self.target, offsets_topic(alias))
        log.catch_up([])
        return log.known.copies


@pytest.fixture
def side() -> Side:
    return Side()


def test_copies_are_claimed_once(side: Side):
    admission = side.admission(prefixed=True)
    assert admission.admit(["u", "t"]) == {"t": "a.t", "u": "a.u"}
    assert side.claims()["a.t"] == Copy(topic="a.t", source="a", source_topic="t", path=("S",))
    written = len(side.target.logs[offsets_topic("a"), 0])
    assert admission.admit(["t"]) == {"t": "a.t"}
    assert side.admission(prefixed=True).admit(["t"]) == {"t": "a.t"}
    assert len(side.target.logs[offsets_topic("a"), 0]) == written


def test_a_mirror_of_a_cluster_into_itself(side: Side):
    with pytest.raises(LoopRefused, match="a at h:1 is the target itself"):
        side.admission(source_id="T")


def test_records_of_the_target_are_not_copied_back(side: Side):
    side.at_source = [{"t": BACK}]
    admission = side.admission()
    assert admission.admit(["t", "u"]) == {"u": "u"}
    assert admission.admit(["t", "u"]) == {"u": "u"}
    assert side.told == ["t at a is a copy of the target's own records: it is not copied back"]
    with pytest.raises(LoopRefused, match="they would come back"):
        side.admission(topics=("t",)).admit(["t"])
    assert set(side.claims()) == {"u"}


def test_two_mirrors_that_start_at_once(side: Side):
    """The other one's claim comes between our first look and our own claim."""
    side.at_source = [{}, {"t": BACK}]
    assert side.admission().admit(["t", "u"]) == {"u": "u"}
    assert set(side.claims()) == {"u"}
    side.at_source = [{}, {"v": BACK}]
    with pytest.raises(LoopRefused):
        side.admission(topics=("v",)).admit(["v"])
    assert set(side.claims()) == {"u"}


def test_two_sources_of_one_copy(side: Side):
    theirs = Copy(topic="t", source="b", source_topic="t", path=("B",))
    OffsetLog(side.target, offsets_topic("b")).write([theirs])
    with pytest.raises(CopyRefused, match="t is the copy of t of b already"):
        side.admission().admit(["t"])
    assert side.admission(prefixed=True).admit(["t"]) == {"t": "a.t"}


def write_beside(monkeypatch: pytest.MonkeyPatch, side: Side, *theirs: Copy) -> None:
    """Has the mirror of `b` claim copies in the moment in which that of `a` writes its own claims."""
    write = OffsetLog.write
    waiting = [theirs]

    def written(self: OffsetLog, records: Any) -> None:
        while waiting:
            write(OffsetLog(side.target, offsets_topic("b")), waiting.pop())
        write(self, records)

    monkeypatch.setattr(OffsetLog, "write", written)


def records(side: Side) -> tuple[OffsetRecord, ...]:
    return read_part(side.target, offsets_topic("a"), 0, wait_s=0).records


def test_two_aliases_that_claim_one_copy_at_once(side: Side, monkeypatch: pytest.MonkeyPatch):
    write_beside(monkeypatch, side, Copy(topic="t", source="b", source_topic="t", path=("B",)))
    with pytest.raises(CopyRefused, match="t is the copy of t of b already"):
        side.admission().admit(["t", "u"])
    assert records(side)[-2:] == (Withdrawn(topic="t"), Withdrawn(topic="u"))
    assert side.claims() == {}
    # The other one's stays: it looks again behind its claim, too.
    assert set(side.claims("b")) == {"t"}


def test_a_claim_that_was_there_before_stays(side: Side, monkeypatch: pytest.MonkeyPatch):
    side.admission().admit(["t"])
    # The topic is a copy at its source by now, so it is claimed again, with another path.
    side.at_source = [{"t": Copy(topic="t", source="x", source_topic="t", path=("X",))}]
    write_beside(monkeypatch, side, Copy(topic="t", source="b", source_topic="t", path=("B",)))
    with pytest.raises(CopyRefused):
        side.admission().admit(["t"])
    assert set(side.claims()) == {"t"}


def begun(side: Side, copy: Copy) -> FakeProducer:
    """A claim of the mirror of `b` behind a transaction of another partition that is open."""
    producer = side.target.producer("other", 1)
    producer.init_transactions(1)
    producer.begin_transaction()
    producer.produce(offsets_topic("b"), b"{}", key=b'["sync", "x", 0, 0]', partition=0)
    OffsetLog(side.target, offsets_topic("b")).write([copy])
    return producer


def test_a_claim_behind_an_open_transaction_is_waited_for(
    side: Side, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "OPEN_WAIT_S", 0)
    theirs = Copy(topic="t", source="b", source_topic="t", path=("B",))
    producer = begun(side, theirs)
    with pytest.raises(ClusterAway, match=r"a transaction in highwater-mirror\.b\.offsets stays"):
        side.admission().admit(["t"])
    assert side.claims() == {}
    producer.abort_transaction(1)
    with pytest.raises(CopyRefused, match="t is the copy of t of b already"):
        side.admission().admit(["t"])


def test_a_second_look_that_fails_takes_the_claim_back(side: Side, monkeypatch: pytest.MonkeyPatch):
    looks: list[str] = []

    def part(clients: Any, topic: str, start: int, *, wait_s: float) -> Any:
        looks.append(topic)
        if looks.count(offsets_topic("b")) == 2:
            raise ClusterAway("away")
        return read_part(clients, topic, start, wait_s=wait_s)

    monkeypatch.setattr(module, "read_part", part)
    with pytest.raises(ClusterAway):
        side.admission().admit(["t"])
    assert records(side)[-1] == Withdrawn(topic="t")
    assert side.claims() == {}


def test_records_of_strangers(side: Side):
    side.cluster.there = {"t": 2}
    assert side.admission().admit(["t"]) == {"t": "t"}
    side.cluster.there["u"] = 1
    side.cluster.filled = {"t", "u"}
    # t is ours by now.
    assert side.admission().admit(["t"]) == {"t": "t"}
    with pytest.raises(CopyRefused, match="u at the target has records that no mirror wrote"):
        side.admission().admit(["u"])
    assert side.admission(append=True).admit(["u"]) == {"u": "u"}
