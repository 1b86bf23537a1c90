"""File systems for tests that can be filled, frozen or broken. Needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

_TIMEOUT_S = 20
_IMAGE_BYTES = 256 << 20
_TRIED_BYTES = 8 << 20


@cache
def missing(*programs: str) -> str | None:
    """Why no file system can be mounted here, or None. Tries it once for the same programs.

    With losetup among them it tries a loop device, with fsfreeze also a freeze.
    """
    if os.geteuid() != 0:
        return "mounts need root"
    for program in ("mount", "umount", *programs):
        if shutil.which(program) is None:
            return f"no {program} on the path"
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "disk")
        image = Path(directory, "disk.image")
        on_loop = LoopDisk(path, image=image, size_bytes=_TRIED_BYTES)
        disk = on_loop if "losetup" in programs else SmallDisk(path, size_bytes=_TRIED_BYTES)
        try:
            disk.mount()
            (path / "file").write_bytes(b"written")
            if "fsfreeze" in programs:
                on_loop.freeze()
                on_loop.thaw()
        except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            return f"no file system can be mounted: {error}"
        finally:
            disk.unmount()
    return None


class SmallDisk:
    """A tmpfs of a few MiB. Call `mount` first and `unmount` at the end."""

    def __init__(self, path: Path, *, size_bytes: int) -> None:
        self.path = path
        self._size_bytes = size_bytes
        self._filler = path / "filler"

    def mount(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={self._size_bytes}", "tmpfs", str(self.path))

    def fill(self, *, leave_bytes: int = 0) -> None:
        """Fills the disk to the last byte, or until so many are left."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while not leave_bytes or shutil.disk_usage(self.path).free > leave_bytes:
                    file.write(bytes(4096))
            except OSError:
                return

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    def unmount(self) -> None:
        _unmount(self.path)


class LoopDisk:
    """An ext4 file system in a file, on a loop device of its own."""

    def __init__(self, path: Path, *, image: Path, size_bytes: int = _IMAGE_BYTES) -> None:
        self.path = path
        self._image = image
        self._size_bytes = size_bytes
        self._device = ""
        self._frozen = False

    def mount(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        with self._image.open("wb") as file:
            file.truncate(self._size_bytes)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self._device = _run("losetup", "--find", "--show", str(self._image)).decode().strip()
        _run("mount", "-o", "errors=remount-ro", self._device, str(self.path))

    def freeze(self) -> None:
        """Makes writes and syncs hang."""
        _run("fsfreeze", "--freeze", str(self.path))
        self._frozen = True

    def thaw(self) -> None:
        if self._frozen:
            _run("fsfreeze", "--unfreeze", str(self.path))
            self._frozen = False

    def fail(self) -> None:
        """Triggers an error in the kernel, which makes the file system read-only."""
        name = Path(self._device).name
        Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("a test's wish")

    def replace(self) -> None:
        """Mounts a new, empty disk in its place; open files of the old one stay open."""
        _run("umount", "--lazy", str(self.path))
        _run("losetup", "--detach", self._device)
        self._image.unlink()
        self.mount()

    def lose_unsynced(self) -> None:
        """Mounts the device's current content, without unsynced data, as after a power cut."""
        kept = self._image.with_suffix(".kept")
        _run("cp", "--sparse=always", str(self._image), str(kept))
        _unmount(self.path)
        _run("losetup", "--detach", self._device)
        kept.replace(self._image)
        self._device = _run("losetup", "--find", "--show", str(self._image)).decode().strip()
        _run("mount", "-o", "errors=remount-ro", self._device, str(self.path))

    def mount_again(self) -> None:
        """Unmounts and mounts it, which empties the page cache."""
        _unmount(self.path)
        _run("mount", "-o", "errors=remount-ro", self._device, str(self.path))

    def unmount(self) -> None:
        self.thaw()
        if self._device:
            _unmount(self.path)
            _run("losetup", "--detach", self._device)
            self._device = ""


def _unmount(path: Path) -> None:
    for _ in range(20):
        if not os.path.ismount(path):
            return
        told = subprocess.run(
            ["umount", str(path)], check=False, capture_output=True, timeout=_TIMEOUT_S
        )
        if told.returncode != 0:
            time.sleep(0.2)  # A process that was just killed may still close its files.
    _run("umount", "--lazy", str(path))


def _run(*words: str) -> bytes:
    try:
        done = subprocess.run(words, check=True, capture_output=True, timeout=_TIMEOUT_S)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{' '.join(words)}: {error.stderr.decode().strip()}") from None
    return done.stdout
