from __future__ import annotations

import json
from dataclasses import replace

import pytest

pytest.importorskip("confluent_kafka", reason="needs the spark extra")

from highwater.spark.checkpoint import (
    MARK,
    OWNER,
    SETTINGS,
    STARTS,
    CheckpointRefused,
    claim,
    starts,
)
from highwater.spark.topic_admin import TopicIdentity

WHO = TopicIdentity(cluster_id="c", topic="t", topic_id="i")


class FakeFiles:
    """Files of a directory by their names; moves of the directory `draft-...` only."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.killed = False

    def names(self, directory: str = "") -> list[str]:
        prefix = f"{directory}/"
        return sorted(name.removeprefix(prefix) for name in self.texts if name.startswith(prefix))

    def read_text(self, name: str) -> str:
        return self.texts[name]

    def write_text(self, name: str, text: str) -> None:
        assert name not in self.texts
        self.texts[name] = text
        if self.killed:
            raise KeyboardInterrupt

    def move_new(self, directory: str, target: str) -> bool:
        if self.names(target):
            return False
        for name in self.names(directory):
            self.texts[f"{target}/{name}"] = self.texts.pop(f"{directory}/{name}")
        return True


def test_a_new_checkpoint_is_claimed_and_found_again():
    files = FakeFiles()
    mark = claim(files, "place", "watch", WHO)
    assert (mark.job, mark.cluster_id, mark.topic, mark.topic_id) == ("watch", "c", "t", "i")
    assert list(files.texts) == [f"{OWNER}/{MARK}"]
    assert claim(files, "place", "watch", WHO) == mark


def test_a_mark_of_an_earlier_release_writes_the_same_id_with_other_letters():
    files = FakeFiles()
    claim(files, "place", "watch", replace(WHO, topic_id="a+b/c"))
    assert claim(files, "place", "watch", replace(WHO, topic_id="a-b_c")).topic_id == "a+b/c"


def test_every_new_checkpoint_has_a_writer_of_its_own():
    writers = {claim(FakeFiles(), "place", "watch", WHO).writer for _ in range(3)}
    assert len(writers) == 3


@pytest.mark.parametrize(
    ("job", "who", "told"),
    [
        ("ranking", WHO, "place is the checkpoint of job watch, not of ranking"),
        ("watch", replace(WHO, cluster_id="d"), "checkpoint of cluster c, not of d"),
        ("watch", replace(WHO, topic="u"), "checkpoint of topic t, not of u"),
        (
            "watch",
            replace(WHO, topic_id="j"),
            "an earlier topic t, which was deleted and made anew",
        ),
    ],
)
def test_the_checkpoint_of_another_one_is_refused(job: str, who: TopicIdentity, told: str):
    files = FakeFiles()
    claim(files, "place", "watch", WHO)
    with pytest.raises(CheckpointRefused, match=told):
        claim(files, "place", job, who)


def test_a_start_that_was_killed_leaves_a_new_checkpoint():
    files = FakeFiles()
    files.killed = True
    with pytest.raises(KeyboardInterrupt):
        claim(files, "place", "watch", WHO)
    files.killed = False
    assert claim(files, "place", "watch", WHO) == claim(files, "place", "watch", WHO)


def test_a_checkpoint_of_something_else_is_refused():
    files = FakeFiles()
    files.texts["stream/offsets"] = ""
    with pytest.raises(CheckpointRefused, match="place is not a checkpoint of highwater-spark"):
        claim(files, "place", "watch", WHO)


@pytest.mark.parametrize("text", ["", "{}", "[1]"])
def test_a_mark_that_is_damaged_is_refused(text: str):
    files = FakeFiles()
    files.texts[f"{OWNER}/{MARK}"] = text
    with pytest.raises(CheckpointRefused, match="a mark that cannot be read"):
        claim(files, "place", "watch", WHO)


def test_a_mark_of_a_later_version_is_refused():
    files = FakeFiles()
    claim(files, "place", "watch", WHO)
    mark = json.loads(files.texts[f"{OWNER}/{MARK}"])
    files.texts[f"{OWNER}/{MARK}"] = json.dumps(mark | {"version": 2})
    with pytest.raises(CheckpointRefused, match="place has version 2, not 1"):
        claim(files, "place", "watch", WHO)


RANKING = {"--window": "3600 seconds", "--top": "10"}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("--window", "7200 seconds", "place is of a job with --window '3600 seconds', not '7200 s"),
        ("--top", "5", "give --top '10', or begin anew with an empty checkpoint"),
    ],
)
def test_other_settings_are_refused(name: str, value: str, told: str):
    files = FakeFiles()
    mark = claim(files, "place", "ranking", WHO, RANKING)
    with pytest.raises(CheckpointRefused, match=told):
        claim(files, "place", "ranking", WHO, RANKING | {name: value})
    assert claim(files, "place", "ranking", WHO, RANKING) == mark


def test_a_checkpoint_without_settings_keeps_those_of_its_next_start():
    files = FakeFiles()
    mark = claim(files, "place", "ranking", WHO)
    assert claim(files, "place", "ranking", WHO, RANKING) == mark
    assert claim(files, "place", "ranking", WHO, RANKING | {"--slide": "60 seconds"}) == mark
    with pytest.raises(CheckpointRefused, match="not '11'"):
        claim(files, "place", "ranking", WHO, RANKING | {"--top": "11"})


def test_settings_that_are_damaged_are_refused():
    files = FakeFiles()
    files.texts[f"{SETTINGS}/settings.json"] = "["
    with pytest.raises(CheckpointRefused, match="place has settings that cannot be read"):
        claim(files, "place", "ranking", WHO, RANKING)


def test_starts_are_asked_for_once_and_new_partitions_begin_at_0():
    files = FakeFiles()
    assert starts(files, "place", 2, lambda: {0: 7, 1: 8}) == {0: 7, 1: 8}
    assert starts(files, "place", 3, lambda: pytest.fail("again")) == {0: 7, 1: 8, 2: 0}
    assert list(files.texts) == [f"{STARTS}/starts.json"]


def test_a_start_that_was_killed_leaves_no_starts():
    files = FakeFiles()
    files.killed = True
    with pytest.raises(KeyboardInterrupt):
        starts(files, "place", 1, lambda: {0: 7})
    files.killed = False
    assert starts(files, "place", 1, lambda: {0: 9}) == {0: 9}
