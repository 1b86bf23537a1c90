"""A crash after every single step, also of the recovery, and the resulting log."""

import pytest

from highwater.partition.storage.names import offset_file
from highwater.partition.storage.recovery.compaction_swap import (
    Rename,
    SyncDirectory,
    SyncFile,
    Unlink,
    recovery,
    swap,
    swapped_bases,
)

KINDS = ("index", "timeindex", "txnindex", "log")


class Directory:
    """File names and contents: ("old" or "new", kind, base, end)."""

    def __init__(self) -> None:
        self.files = {}
        for base, end in ((0, 10), (10, 20), (20, 30), (30, 40)):
            for kind in KINDS:
                self.files[offset_file(base, f".{kind}")] = ("old", kind, base, end)
        self.files["leader-epoch-checkpoint"] = ("kept",)
        for kind in KINDS:
            self.files[offset_file(10, f".{kind}.cleaned")] = ("new", kind, 10, 30)

    def carry_out(self, steps, count=None):
        for step in steps[:count]:
            match step:
                case Rename(old, new):
                    self.files[new] = self.files.pop(old)
                case Unlink(name):
                    self.files.pop(name, None)
                case SyncFile(name):
                    assert name in self.files
                case SyncDirectory():
                    pass

    def recover(self, count=None):
        def end_of(base):
            return self.files[offset_file(base, ".log.swap")][3]

        steps = recovery(self.files, end_of)
        self.carry_out(steps, count)
        return steps

    def segments(self):
        logs = [held for name, held in sorted(self.files.items()) if name.endswith(".log")]
        return [(age, base, end) for age, _, base, end in logs]


OLD = [("old", 0, 10), ("old", 10, 20), ("old", 20, 30), ("old", 30, 40)]
NEW = [("old", 0, 10), ("new", 10, 30), ("old", 30, 40)]
STEPS = swap([10, 20])
DECISION = STEPS.index(Rename(offset_file(10, ".log.cleaned"), offset_file(10, ".log.swap")))


def check(directory, expected):
    assert directory.segments() == expected
    assert directory.files["leader-epoch-checkpoint"] == ("kept",)
    allowed = (".log", ".index", ".timeindex", ".txnindex", "checkpoint")
    assert all(name.endswith(allowed) for name in directory.files), directory.files
    for name, held in directory.files.items():
        if name.endswith("index"):
            log = directory.files[name.split(".")[0] + ".log"]
            assert (held[0], *held[2:]) == (log[0], *log[2:]), "an index belongs to its log"


def test_whole_swap():
    directory = Directory()
    directory.carry_out(STEPS)
    assert directory.segments() == NEW
    directory.recover()  # The next start only removes the replaced files.
    check(directory, NEW)
    assert len(directory.files) == 13
    assert directory.recover() == []


@pytest.mark.parametrize("done", range(len(STEPS) + 1))
def test_crash_after_each_step(done):
    expected = NEW if done > DECISION else OLD
    directory = Directory()
    directory.carry_out(STEPS, done)
    whole = len(directory.recover())
    check(directory, expected)
    for again in range(whole):
        directory = Directory()
        directory.carry_out(STEPS, done)
        directory.recover(again)
        directory.recover()
        check(directory, expected)


def test_files_are_on_disk_before_they_count_and_gone_only_after_that():
    synced = [step.name for step in STEPS[:DECISION] if isinstance(step, SyncFile)]
    assert sorted(synced) == sorted(offset_file(10, f".{kind}.cleaned") for kind in KINDS)
    assert isinstance(STEPS[DECISION - 1], SyncDirectory)
    assert isinstance(STEPS[DECISION + 1], SyncDirectory)
    assert isinstance(STEPS[-1], SyncDirectory)
    doomed = [step for step in STEPS[:DECISION] if isinstance(step, Rename)]
    assert not any(step.new.endswith(".deleted") for step in doomed)


def test_two_interrupted_swaps():
    directory = Directory()
    for kind in KINDS:
        directory.files[offset_file(30, f".{kind}.cleaned")] = ("new", kind, 30, 40)
    directory.carry_out(STEPS, DECISION + 1)
    directory.carry_out(swap([30]), DECISION + 1)
    directory.recover()
    check(directory, [("old", 0, 10), ("new", 10, 30), ("new", 30, 40)])


def test_directory_without_leftovers():
    directory = Directory()
    for kind in KINDS:
        del directory.files[offset_file(10, f".{kind}.cleaned")]
    assert directory.recover() == []
    check(directory, OLD)


@pytest.mark.parametrize("done", range(DECISION + 1, len(STEPS) + 1))
def test_a_completed_swap_leaves_no_transaction_index_in_doubt(done):
    directory = Directory()
    directory.carry_out(STEPS, done)
    swapped = swapped_bases(directory.files)
    directory.recover()
    left = offset_file(10, ".txnindex") in directory.files
    assert (swapped == [10]) is not left, "the caller rebuilds what is not there"
