import os
from pathlib import Path

import pytest

from highwater.partition.storage.directory import failure_notes
from highwater.partition.storage.directory.failure_notes import (
    NoNotes,
    RuntimeNotes,
    runtime_directories,
)


def test_notes_survive_until_the_kernel_restarts(tmp_path: Path) -> None:
    RuntimeNotes([tmp_path / "run"], boot_id="boot").remember("8:17")
    notes = RuntimeNotes([tmp_path / "run"], boot_id="boot")
    assert notes.known("8:17")
    assert not notes.known("8:18")
    assert not RuntimeNotes([tmp_path / "run"], boot_id="later").known("8:17")
    notes.forget("8:17")
    assert not notes.known("8:17")
    notes.forget("8:17")


def test_the_first_directory_that_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    directories = [tmp_path / "file", tmp_path / "b", tmp_path / "c"]
    RuntimeNotes(directories, boot_id="boot").remember("8:17")
    assert len(list((tmp_path / "b").iterdir())) == 1
    assert not (tmp_path / "c").exists()
    assert RuntimeNotes(directories[::-1], boot_id="boot").known("8:17")


def test_notes_that_others_may_have_written_are_ignored(tmp_path: Path) -> None:
    notes = RuntimeNotes([tmp_path / "run"], boot_id="boot")
    notes.remember("8:17")
    (tmp_path / "run").chmod(0o777)
    assert not notes.known("8:17")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    (tmp_path / "run").chmod(0o700)
    assert not RuntimeNotes([tmp_path / "link"], boot_id="boot").known("8:17")


def test_the_number_of_notes_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_notes, "NOTES_MAX", 3)
    notes = RuntimeNotes([tmp_path / "run"], boot_id="boot")
    for number in range(5):
        notes.remember(f"8:{number}")
        for path in (tmp_path / "run").iterdir():
            at = path.stat().st_mtime_ns - 10**9
            os.utime(path, ns=(at, at))
    assert [number for number in range(5) if notes.known(f"8:{number}")] == [2, 3, 4]


def test_without_a_boot_id_or_a_place_there_is_nothing_to_remember(tmp_path: Path) -> None:
    RuntimeNotes([tmp_path / "run"], boot_id="").remember("8:17")
    RuntimeNotes([tmp_path / "run"], boot_id="boot").remember("")
    assert not (tmp_path / "run").exists()
    NoNotes().remember("8:17")
    assert not NoNotes().known("8:17")


def test_directories_of_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert runtime_directories(tmp_path) == [tmp_path]
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert len(runtime_directories(None)) == 2
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert runtime_directories(None)[1] == Path("/run/user/7/highwater")
