"""A real browser without a display: what it makes of a page, and a picture of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_TIMEOUT_S = 90
_NAMES = ("chromium", "chromium-browser")


def browser() -> str:
    """Returns the browser's path. Raises FileNotFoundError if the set-up has installed none."""
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    raise FileNotFoundError("no chromium: run make peers")


def screenshot(page: Path, picture: Path, *, width: int, height: int) -> None:
    """Writes a PNG of the page, as wide and high as a window of this many pixels."""
    _run(page, picture.parent, f"--screenshot={picture}", f"--window-size={width},{height}")
    if not picture.is_file():
        raise FileNotFoundError(f"the browser has drawn nothing of {page}")


def read_document(page: Path, scratch: Path) -> str:
    """Returns the page's elements as the browser understood them, as HTML."""
    return _run(page, scratch, "--dump-dom")


def _run(page: Path, scratch: Path, *options: str) -> str:
    done = subprocess.run(
        [
            browser(),
            "--headless",
            # Its sandbox needs rights that containers do not have, and root may not use it.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            f"--user-data-dir={scratch / 'browser'}",
            *options,
            page.resolve().as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=True,
    )
    return done.stdout
