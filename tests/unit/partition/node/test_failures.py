"""What fails is told to the controller, and ends the node only if nothing of it is left."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from highwater.model.errors import HighwaterError
from highwater.partition.node.failures import NodeFailures
from highwater.partition.storage.errors import CorruptLogError, LogDirFailure
from highwater.runtime.logging import silent_logger

FAILURE = LogDirFailure("/a", OSError("bad"))


class World:
    """Two replicas in either of two directories; it notes what is called, in order."""

    def __init__(self):
        self.calls = []
        self.replicas = [self.replica(number, number % 2) for number in range(4)]
        self.joined = True
        self.all_dirs_failed = False
        self.failed = asyncio.get_running_loop().create_future()
        self.failures = NodeFailures(
            [Path("/a"), Path("/b")],
            plane_replicas=lambda: self.replicas,
            logs=lambda: self,
            replicas=lambda: self,
            membership=lambda: self if self.joined else None,
            failed=self.failed,
            log=silent_logger(),
        )

    def replica(self, number, log_dir):
        made = SimpleNamespace(topic_name="t", partition=number, log_dir=log_dir, failed=False)

        def fail():
            made.failed = True
            self.calls.append(f"fail {number}")

        made.fail = fail
        return made

    def __getattr__(self, name):
        """Whatever a part is asked to do."""

        def note(*args):
            self.calls.append(" ".join([name, *(str(a) for a in args if isinstance(a, str | int))]))
            return True

        return note


async def test_the_replicas_of_a_failed_directory_fail_once_and_the_controller_hears_it():
    w = World()
    w.replicas[3].failed = True
    w.failures.dir_failed(1, FAILURE)
    assert w.calls == ["fail 1", "log_dir_failed /b", "count", "nudge"]
    assert not w.failed.done()


async def test_without_any_directory_the_node_ends():
    w = World()
    w.all_dirs_failed = True
    w.failures.dir_failed(0, FAILURE)
    w.failures.dir_failed(1, FAILURE)
    with pytest.raises(HighwaterError, match="every log directory"):
        w.failed.result()


async def test_before_the_node_has_joined_nobody_is_told():
    w = World()
    w.joined = False
    w.failures.dir_failed(0, FAILURE)
    assert w.calls == ["fail 0", "fail 2", "count"]


async def test_a_failed_write_takes_the_directory_and_damage_only_the_log():
    w = World()
    w.failures.log_failed(w.replicas[1], FAILURE)
    assert w.calls == ["fail_dir 1"]
    w.calls.clear()
    w.failures.log_failed(w.replicas[1], CorruptLogError("cut"))
    assert w.calls == ["fail 1", "replace_uncut_log", "count", "nudge"]


@pytest.mark.parametrize(
    ("error", "first"), [(CorruptLogError("bytes"), ["step_back"]), (KeyError("bug"), [])]
)
async def test_a_damaged_log_is_fetched_again_and_a_bug_is_not(error, first):
    w = World()
    w.failures.replica_bug(w.replicas[0], error)
    assert w.calls == [*first, "count", "nudge"]
