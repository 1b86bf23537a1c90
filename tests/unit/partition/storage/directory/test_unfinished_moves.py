"""What a start makes of each state in which a move may have been interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.partition.storage.directory.handle_limits import HandleLimits
from highwater.partition.storage.directory.hosted_directory import HostedDirectory
from highwater.partition.storage.directory.log_directory import LogDirectory
from highwater.partition.storage.directory.move_mark import MoveMark, write_mark
from highwater.partition.storage.directory.unfinished_moves import UnfinishedMoves, copy_path
from highwater.partition.storage.errors import LogDirFailure
from highwater.partition.storage.filesystem import FileSystem
from tests.support.log_batches import ManualClock

T1, T2 = "1" * 32, "2" * 32
LOG, COPY, MOVED = "orders-0", "orders-0.{}-future", "orders-0.{}-moved"


class Dirs:
    """Log directories with directories of partitions, which hold their names."""

    def __init__(self, root: Path, *names: str) -> None:
        self.paths = {name: root / name for name in names}
        self.hosted = [self._hosted(n, path) for n, path in enumerate(self.paths.values())]

    @staticmethod
    def _hosted(index: int, path: Path) -> HostedDirectory:
        path.mkdir()
        return HostedDirectory(
            index,
            LogDirectory(str(path), FileSystem()),
            clock=ManualClock(),
            post=lambda callback: callback(),
            on_failure=lambda *_: None,
            entries=lambda _: [],
            limits=HandleLimits(files=10, maps=10),
        )

    def put(
        self, directory: str, name: str, token: str = "", generation: int = 0, topic: str = "A"
    ) -> None:
        path = self.paths[directory] / name
        path.mkdir()
        (path / "from").write_text(f"{directory}/{name}")
        if topic:
            text = f"version: 0\ntopic_id: {topic * 22}"
            (path / "partition.metadata").write_text(text)
        if generation:
            write_mark(FileSystem(), str(path), MoveMark(token=token, generation=generation))

    def settle(self) -> UnfinishedMoves:
        moves = UnfinishedMoves(self.hosted)
        moves.settle()
        return moves

    def left(self) -> dict[str, str]:
        """Where what was put is now, without tokens and what is to be removed."""
        found = {}
        for name, path in self.paths.items():
            for one in path.iterdir():
                if not one.name.endswith("-delete"):
                    kind = one.name.rpartition("-")[2] if "." in one.name else "log"
                    found[(one / "from").read_text()] = f"{name}/{kind}"
        return found


@pytest.fixture
def dirs(tmp_path: Path) -> Dirs:
    return Dirs(tmp_path, "a", "b", "c")


def test_nothing_to_settle(dirs: Dirs) -> None:
    dirs.put("a", LOG)
    moves = dirs.settle()
    assert (moves.found, moves.begun) == (False, {})
    assert dirs.left() == {"a/orders-0": "a/log"}


@pytest.mark.parametrize("generation", [0, 1])
def test_an_unfinished_copy_is_begun_again(dirs: Dirs, generation: int) -> None:
    dirs.put("a", LOG)
    dirs.put("b", COPY.format(T1), T1, generation)
    moves = dirs.settle()
    assert (moves.found, moves.begun) == (True, {LOG: (1, T1)})
    assert dirs.left() == {"a/orders-0": "a/log", f"b/{COPY.format(T1)}": "b/future"}


def test_of_two_copies_one_is_begun_again(dirs: Dirs) -> None:
    dirs.put("a", LOG)
    dirs.put("b", COPY.format(T1))
    dirs.put("c", COPY.format(T2))
    assert dirs.settle().begun == {LOG: (1, T1)}
    assert sorted(dirs.left().values()) == ["a/log", "b/future"]


def test_a_copy_in_the_logs_own_directory_is_removed(dirs: Dirs) -> None:
    dirs.put("a", LOG)
    dirs.put("a", COPY.format(T1), T1, 1)
    assert dirs.settle().begun == {}
    assert dirs.left() == {"a/orders-0": "a/log"}


def test_the_whole_copy_of_a_log_that_was_set_aside_becomes_the_log(dirs: Dirs) -> None:
    dirs.put("a", MOVED.format(T1))
    dirs.put("b", COPY.format(T1), T1, 1)
    assert dirs.settle().begun == {}
    assert dirs.left() == {f"b/{COPY.format(T1)}": "b/log"}
    assert (dirs.paths["b"] / LOG).is_dir()


@pytest.mark.parametrize("mark", ["", T2])
def test_a_log_comes_back_if_the_copy_is_not_whole(dirs: Dirs, mark: str) -> None:
    dirs.put("a", MOVED.format(T1))
    dirs.put("b", COPY.format(T1), mark, 1 if mark else 0)
    assert dirs.settle().begun == {LOG: (1, T1)}
    assert dirs.left()[f"a/{MOVED.format(T1)}"] == "a/log"
    assert (dirs.paths["a"] / LOG).is_dir()


def test_a_log_comes_back_if_its_copy_could_not_be_renamed(dirs: Dirs) -> None:
    """It was marked as newer then, and appended to; the rename back was lost in a power cut."""
    dirs.put("a", MOVED.format(T1), "", 2)
    dirs.put("b", COPY.format(T1), T1, 1)
    dirs.settle()
    assert dirs.left()[f"a/{MOVED.format(T1)}"] == "a/log"


def test_a_log_comes_back_without_its_copy(dirs: Dirs) -> None:
    dirs.put("a", MOVED.format(T1))
    dirs.settle()
    assert dirs.left() == {f"a/{MOVED.format(T1)}": "a/log"}


@pytest.mark.parametrize("copy", [True, False])
def test_without_all_directories_nothing_is_done(dirs: Dirs, copy: bool) -> None:
    dirs.put("a", MOVED.format(T1))
    if copy:
        dirs.put("b", COPY.format(T1), T1, 1)
    dirs.hosted[2].failure = LogDirFailure("c", OSError(5, "x"))
    before = dirs.left()
    assert dirs.settle().begun == {}
    assert dirs.left() == before


def test_a_moved_log_goes_when_the_copy_has_its_place(dirs: Dirs) -> None:
    dirs.put("a", MOVED.format(T1))
    dirs.put("b", LOG, T1, 1)
    dirs.settle()
    assert dirs.left() == {"b/orders-0": "b/log"}


def test_a_moved_log_is_kept_beside_a_log_that_is_not_its_copy(dirs: Dirs) -> None:
    dirs.put("a", MOVED.format(T1))
    dirs.put("a", COPY.format(T2), T2, 1)
    dirs.put("b", LOG, T2, 3)
    dirs.settle()
    assert dirs.left() == {f"a/{MOVED.format(T1)}": "a/stray", "b/orders-0": "b/log"}


def test_copies_of_a_log_that_was_deleted_go(dirs: Dirs) -> None:
    dirs.put("b", COPY.format(T1), T1, 1)
    assert dirs.settle().begun == {}
    assert dirs.left() == {}


@pytest.mark.parametrize(("first", "second", "kept"), [(0, 1, "b"), (3, 2, "a"), (1, 2, "b")])
@pytest.mark.parametrize("topics", ["AA", "-A", "A-", "--"])
def test_of_two_logs_the_one_moved_later_counts(
    dirs: Dirs, first: int, second: int, kept: str, topics: str
) -> None:
    dirs.put("a", LOG, T1, first, topics[0].strip("-"))
    dirs.put("b", LOG, T2, second, topics[1].strip("-"))
    dirs.settle()
    other = "ab".replace(kept, "")
    assert dirs.left() == {
        f"{kept}/orders-0": f"{kept}/log",
        f"{other}/orders-0": f"{other}/stray",
    }


@pytest.mark.parametrize(("first", "second", "topics"), [(0, 0, "AA"), (2, 2, "AA"), (0, 1, "AB")])
def test_two_logs_that_no_move_explains_stay(
    dirs: Dirs, first: int, second: int, topics: str
) -> None:
    dirs.put("a", LOG, T1, first, topics[0])
    dirs.put("b", LOG, T2, second, topics[1])
    before = dirs.left()
    dirs.settle()
    assert dirs.left() == before


def failing(call: str) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(5, call)

    return fail


@pytest.mark.parametrize("call", ["rename", "listdir", "fsync"])
def test_a_directory_that_fails_is_offline_and_the_others_are_settled(
    dirs: Dirs, call: str
) -> None:
    dirs.put("a", MOVED.format(T1))
    dirs.put("b", f"other-0.{T2}-moved")
    dirs.put("c", f"other-0.{T2}-future", T2, 1)
    setattr(dirs.hosted[0].filesystem, call, failing(call))
    dirs.settle()
    assert dirs.hosted[0].failure is not None
    assert [hosted.failure for hosted in dirs.hosted[1:]] == [None, None]
    left = dirs.left()
    assert left[f"a/{MOVED.format(T1)}"] == ("a/log" if call == "fsync" else "a/moved")
    # Another directory is offline by then, which may have the log.
    assert len(left) == 3


def test_a_name_may_be_too_long_for_a_copy() -> None:
    assert copy_path("d", "t" * 213 + "-0", T1) == f"d/{'t' * 213}-0.{T1}-future"
    assert copy_path("d", "t" * 214 + "-0", T1) is None
