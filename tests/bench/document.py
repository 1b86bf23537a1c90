"""Tables for the terminal and for docs/benchmarks.md, and a description of the machine."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from tests.support.maven import CACHE, REPOSITORY

DOCUMENT = REPOSITORY / "docs" / "benchmarks.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the document between two marks; the Makefile's `target` writes it."""

    name: str
    target: str

    @property
    def begin(self) -> str:
        """The mark before it."""
        return (
            f"<!-- {self.name}: written by `make {self.target}`, do not edit between the marks -->"
        )

    @property
    def end(self) -> str:
        """The mark after it."""
        return f"<!-- end of {self.name} -->"


def write_section(path: Path, section: Section, text: str) -> None:
    """Replaces the section between its marks. Raises ValueError if the file has no marks."""
    before, begin, rest = path.read_text().partition(section.begin)
    _, end, after = rest.partition(section.end)
    if not begin or not end:
        raise ValueError(f"{path} lacks the marks {section.begin!r} and {section.end!r}")
    path.write_text(f"{before}{begin}\n\n{text}\n{end}{after}")


def rich_table(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    """A table for the terminal."""
    table = Table(title=title, show_lines=False)
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i == 0 else "right", overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table


def markdown_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """The lines of the table in Markdown; none if `lines` is empty."""
    if not lines:
        return []
    rule = "|".join(["---", *["---:"] * (len(header) - 1)])
    return [f"| {' | '.join(header)} |", f"|{rule}|", *(f"| {' | '.join(x)} |" for x in lines)]


def save_json(name: str, content: object) -> Path:
    """Saves all samples of a run in the cache directory; returns the file."""
    path = CACHE / "bench" / f"{name}{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1))
    return path


def with_limit(value: float, limit: float | None, form: str) -> str:
    """The value, and whether it is below the limit."""
    shown = format(value, form)
    if limit is None:
        return shown
    return f"{shown} (< {limit:g}: {'reached' if value < limit else 'missed'})"


def with_target(ratio: float, target: float | None, *, at_most: bool = False) -> str:
    """The ratio, and whether it is at least the target, or at most."""
    if target is None:
        return f"{ratio:.2f}"
    reached = ratio <= target if at_most else ratio >= target
    sign = "<=" if at_most else ">="
    return f"{ratio:.2f} ({sign} {target:g}: {'reached' if reached else 'missed'})"


def machine() -> list[str]:
    """The properties of this machine that a reader of the numbers needs."""
    cpu = _field("/proc/cpuinfo", "model name") or platform.processor()
    memory_kb = int((_field("/proc/meminfo", "MemTotal") or "0 kB").split()[0])
    read_ahead = sorted(
        f"{p.parent.parent.name} {p.read_text().strip()} KiB"
        for p in Path("/sys/block").glob("*/queue/read_ahead_kb")
        if not p.parent.parent.name.startswith(("loop", "ram"))
    )
    return [
        (
            f"{os.cpu_count()} CPUs ({cpu}), {memory_kb / 1e6:.0f} GB memory, "
            f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
        ),
        f"read-ahead: {', '.join(read_ahead) or 'unknown'}",
        f"TCP congestion control: {_congestion_control()}",
    ]


def _congestion_control() -> str:
    """Of new sockets, also on loopback, where BBR paces what is sent."""
    try:
        return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    except OSError:
        return "unknown"


def _field(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None
