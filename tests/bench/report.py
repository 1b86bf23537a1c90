"""The table on the terminal, and the same as Markdown for docs/benchmarks.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.table import Table

from tests.bench.session import Row, Settings
from tests.bench.startup import TARGET_FIRST_ACK_S, TARGET_IDLE_BYTES, Startup

BEGIN = "<!-- results: written by `make bench`, do not edit between the marks -->"
END = "<!-- end of results -->"


@dataclass(slots=True)
class Results:
    """Everything that a run of the benchmark found."""

    command: str
    settings: Settings
    baseline: str | None
    versions: dict[str, str] = field(default_factory=dict)
    startups: dict[str, Startup] = field(default_factory=dict)
    memory_after: dict[str, int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @property
    def peers(self) -> list[str]:
        """Names in the order they were given."""
        return list(self.versions)


def _verdict(ratio: float, target: float, *, lower_is_better: bool) -> str:
    return "reached" if (ratio <= target if lower_is_better else ratio >= target) else "missed"


def _cell(row: Row, peer: str) -> str:
    if peer in row.failures:
        return "failed"
    values = [sample.value for sample in row.samples.get(peer, [])]
    if not values:
        return "-"
    return f"{median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})"


def _ratio_cell(row: Row, peer: str, baseline: str | None) -> str:
    if baseline is None or peer == baseline:
        return ""
    ratio = row.ratio(peer, baseline)
    if ratio is None:
        return "-"
    target = row.workload.targets.get(peer)
    if target is None:
        return f"{ratio:.2f}"
    lower = row.workload.metric.lower_is_better
    sign = "<=" if lower else ">="
    return f"{ratio:.2f} ({sign} {target}: {_verdict(ratio, target, lower_is_better=lower)})"


def _detail_cell(row: Row, peer: str) -> str:
    samples = row.samples.get(peer, [])
    if not samples:
        return "-"
    p99 = median(sample.p99_us for sample in samples)
    text = f"{median(sample.p50_us for sample in samples):,.0f} / {p99:,.0f}"
    cpu = [sample.server_cpu_us for sample in samples if sample.server_cpu_us is not None]
    return f"{text} / {median(cpu):,.1f}" if cpu else f"{text} / -"


def row_table(results: Results) -> tuple[list[str], list[list[str]]]:
    """Header and lines: one line per row, for each peer its median, range and ratio."""
    header = ["row", "unit"]
    for peer in results.peers:
        header.append(peer)
        if results.baseline is not None and peer != results.baseline:
            header.append(f"{peer} / {results.baseline}")
    header += [f"{peer}: p50 us / p99 us / server CPU us per request" for peer in results.peers]
    lines = []
    for row in results.rows:
        line = [row.workload.name, row.workload.metric.value]
        for peer in results.peers:
            line.append(_cell(row, peer))
            if results.baseline is not None and peer != results.baseline:
                line.append(_ratio_cell(row, peer, results.baseline))
        line += [_detail_cell(row, peer) for peer in results.peers]
        lines.append(line)
    return header, lines


def startup_table(results: Results) -> tuple[list[str], list[list[str]]]:
    """Header and lines: start-up time and memory by peer."""
    header = ["peer", "start to first acknowledged record, s", "resident idle, MB",
              "resident after all rows, MB"]  # fmt: skip
    lines = []
    for peer in results.peers:
        startup = results.startups.get(peer)
        ack = idle = "-"
        if startup is not None:
            ack = _with_limit(startup.first_ack_s, TARGET_FIRST_ACK_S.get(peer), 1, ".2f")
            if startup.idle_resident_bytes is not None:
                limit = TARGET_IDLE_BYTES.get(peer)
                idle = _with_limit(startup.idle_resident_bytes, limit, 10**6, ",.0f")
        after = results.memory_after.get(peer)
        lines.append([peer, ack, idle, "-" if after is None else f"{after / 1e6:,.0f}"])
    return header, lines


def _with_limit(value: float, limit: float | None, unit: int, form: str) -> str:
    shown = format(value / unit, form)
    if limit is None:
        return shown
    return f"{shown} (< {limit / unit:g}: {'reached' if value < limit else 'missed'})"


def rich_tables(results: Results) -> list[Table]:
    """The tables for a terminal."""
    tables = []
    for title, (header, lines) in (
        ("Apache Kafka and Highwater in turns", row_table(results)),
        ("Start and memory", startup_table(results)),
    ):
        if not lines:
            continue
        table = Table(title=title, show_lines=False)
        for i, name in enumerate(header):
            table.add_column(name, justify="left" if i == 0 else "right", overflow="fold")
        for line in lines:
            table.add_row(*line)
        tables.append(table)
    return tables


def markdown(results: Results) -> str:
    """The section between the marks of docs/benchmarks.md."""
    settings = results.settings
    parts = [
        f"Command: `{results.command}`",
        "",
        (
            f"{settings.pairs} pairs, windows of {settings.seconds:g} s after "
            f"{settings.warmup_seconds:g} s of warm-up each. A cell is the median and the range; a "
            "ratio is the median of the ratios pair by pair."
        ),
        "",
        *(f"- {line}" for line in machine()),
        *(f"- {peer}: {version}" for peer, version in results.versions.items()),
        "",
        *_markdown_table(*row_table(results)),
        "",
        *_markdown_table(*startup_table(results)),
    ]
    failures = [
        f"- {row.workload.name}, {peer}: {text.splitlines()[0]}"
        for row in results.rows
        for peer, text in row.failures.items()
    ]
    if failures:
        parts += ["", "Failed:", "", *failures]
    return "\n".join(parts) + "\n"


def _markdown_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    if not lines:
        return []
    rule = "|".join(["---", *["---:"] * (len(header) - 1)])
    return [f"| {' | '.join(header)} |", f"|{rule}|", *(f"| {' | '.join(x)} |" for x in lines)]


def write_markdown(path: Path, results: Results) -> None:
    """Replaces the section between the marks. Raises ValueError when the file has no marks."""
    text = path.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} lacks the marks {BEGIN!r} and {END!r}")
    path.write_text(f"{before}{BEGIN}\n\n{markdown(results)}\n{END}{after}")


def machine() -> list[str]:
    """What of this machine a reader needs to judge the numbers."""
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
    ]


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


def as_json(results: Results) -> dict[str, object]:
    """Every sample, for later comparison."""
    return {
        "command": results.command,
        "machine": machine(),
        "versions": results.versions,
        "startups": {
            peer: {"first_ack_s": s.first_ack_s, "idle_resident_bytes": s.idle_resident_bytes}
            for peer, s in results.startups.items()
        },
        "memory_after": results.memory_after,
        "rows": [
            {
                "name": row.workload.name,
                "unit": row.workload.metric.value,
                "samples": {peer: [_sample(s) for s in row.samples[peer]] for peer in row.samples},
                "failures": row.failures,
            }
            for row in results.rows
        ],
    }


def _sample(sample: object) -> Mapping[str, object]:
    names = ("value", "p50_us", "p99_us", "requests_per_s", "mb_per_s", "server_cpu_us")
    return {name: getattr(sample, name) for name in names}
