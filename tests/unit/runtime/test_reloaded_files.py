import os

import pytest

from highwater.model.errors import UsageError
from highwater.runtime.reloaded_files import LOOK_S, ReloadedFiles


class Scene:
    def __init__(self, path):
        self.path, self.now_s, self.failures, self.reads = path, 100.0, [], 0
        path.write_text("first")
        self.files = ReloadedFiles(
            [path], self.read, on_failure=self.failures.append, monotonic_s=lambda: self.now_s
        )

    def read(self):
        self.reads += 1
        try:
            text = self.path.read_text()
        except OSError:
            raise UsageError("absent") from None
        if text == "bad":
            raise UsageError("bad")
        return text

    def later(self):
        self.now_s += LOOK_S
        return self.files.get()


@pytest.fixture
def scene(tmp_path):
    return Scene(tmp_path / "file")


def test_a_change_is_seen_a_second_later(scene):
    scene.path.write_text("second")
    assert scene.files.get() == "first"
    assert (scene.later(), scene.files.generation) == ("second", 1)


def test_files_that_stay_are_not_read_again(scene):
    assert [scene.later() for _ in range(3)] == ["first"] * 3
    assert (scene.reads, scene.files.generation) == (1, 0)


def test_a_file_of_the_same_length_and_time_that_was_replaced(scene):
    found = scene.path.stat()
    new = scene.path.with_suffix(".new")
    new.write_text("other")
    os.utime(new, ns=(found.st_atime_ns, found.st_mtime_ns))
    new.replace(scene.path)
    assert scene.later() == "other"


def test_what_cannot_be_used_is_told_once_and_the_former_stays(scene):
    scene.path.write_text("bad")
    assert [scene.later(), scene.later()] == ["first", "first"]
    assert [str(error) for error in scene.failures] == ["bad"]
    scene.path.write_text("good")
    assert (scene.later(), scene.files.generation) == ("good", 1)


def test_a_file_that_goes_and_comes_back(scene):
    scene.path.unlink()
    assert scene.later() == "first"
    scene.path.write_text("back")
    assert scene.later() == "back"
    assert len(scene.failures) == 1


def test_the_first_reading_has_to_succeed(tmp_path):
    with pytest.raises(UsageError, match="bad"):
        Scene.__init__(BadScene.__new__(BadScene), tmp_path / "file")


class BadScene(Scene):
    def read(self):
        raise UsageError("bad")
