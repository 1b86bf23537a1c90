"""The tables for the terminal, and the same as Markdown for docs/benchmarks.md."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from rich.table import Table

from tests.bench.document import (
    Section,
    machine,
    markdown_table,
    rich_table,
    with_limit,
    with_target,
)
from tests.bench.session import Row, Settings
from tests.bench.startup import TARGET_FIRST_ACK_S, TARGET_IDLE_MB, Startup
from tests.bench.workloads import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Peers that ran at the same time, measured in turn, their rows, and their memory after these.

    `baseline` is the one that targets refer to (Apache Kafka), `limit` the one that shows what is
    possible; each is None if it was not measured.
    """

    title: str
    section: Section
    peers: tuple[str, ...]
    baseline: str | None
    limit: str | None = None
    rows: list[Row] = field(default_factory=list)
    memory_after: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Results:
    """All results of a run of the benchmark."""

    command: str
    settings: Settings
    versions: dict[str, str] = field(default_factory=dict)
    startups: dict[str, Startup] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        """The rows of all groups."""
        return [row for group in self.groups for row in group.rows]


def _cell(row: Row, peer: str) -> str:
    if peer in row.failures:
        return "failed"
    values = [sample.value for sample in row.samples.get(peer, [])]
    if not values:
        return "-"
    return f"{median(values):,.0f} ({min(values):,.0f}-{max(values):,.0f})"


def _references(group: Group) -> list[str]:
    """The peers that others are compared with."""
    return [name for name in (group.baseline, group.limit) if name is not None]


def _ratio_cell(group: Group, row: Row, peer: str, reference: str) -> str:
    ratio = row.ratio(peer, reference)
    if ratio is None:
        return "-"
    if reference != group.baseline:
        return with_target(ratio, None)
    target = row.workload.targets.get(peer)
    cell = with_target(ratio, target, at_most=row.workload.metric.lower_is_better)
    p50_target, p50_ratio = row.workload.p50_targets.get(peer), row.p50_ratio(peer, reference)
    if p50_target is not None and p50_ratio is not None:
        cell += f"; p50 {with_target(p50_ratio, p50_target, at_most=True)}"
    share = row.workload.plain_shares.get(peer)
    return cell if share is None else f"{cell} {_of_plain(group, row, peer, ratio, share)}"


def _of_plain(group: Group, row: Row, peer: str, ratio: float, share: float) -> str:
    """Whether the ratio reaches its share of the one that was measured without sequence numbers."""
    assert group.baseline is not None
    name = row.workload.plain_name
    plain_row = next((each for each in group.rows if each.workload.name == name), None)
    plain = None if plain_row is None else plain_row.ratio(peer, group.baseline)
    if plain is None:
        return f"(>= {share:g} of plain: not measured)"
    verdict = "reached" if ratio >= share * plain else "missed"
    return f"(>= {share:g} of plain {plain:.2f}: {verdict})"


def _detail_cell(row: Row, peer: str) -> str:
    samples = row.samples.get(peer, [])
    if not samples:
        return "-"
    p99 = median(sample.p99_us for sample in samples)
    text = f"{median(sample.p50_us for sample in samples):,.0f} / {p99:,.0f}"
    cpu = [sample.server_cpu_us for sample in samples if sample.server_cpu_us is not None]
    faults = [sample.server_faults for sample in samples if sample.server_faults is not None]
    text += f" / {median(cpu):,.1f}" if cpu else " / -"
    text += f" / {median(faults):,.2f}" if faults else " / -"
    if row.workload.metric is Metric.TRANSACTIONS:
        whole = median(sample.transaction_p50_us for sample in samples)
        retries = median(sample.retries for sample in samples)
        text += f" / p50 of all {whole:,.0f}, {retries:.2f} retries"
    return text


def row_table(group: Group) -> tuple[list[str], list[list[str]]]:
    """Header and lines: one line per row, for each peer its median, range and ratios."""
    references = _references(group)
    header = ["row", "unit"]
    for peer in group.peers:
        header.append(peer)
        header += [f"{peer} / {name}" for name in references if name != peer]
    header += [
        f"{peer}: p50 us / p99 us / server CPU us per request / page faults per request"
        for peer in group.peers
    ]
    lines = []
    for row in group.rows:
        line = [row.workload.name, row.workload.metric.value]
        for peer in group.peers:
            line.append(_cell(row, peer))
            line += [_ratio_cell(group, row, peer, name) for name in references if name != peer]
        line += [_detail_cell(row, peer) for peer in group.peers]
        lines.append(line)
    return header, lines


def startup_table(results: Results, group: Group) -> tuple[list[str], list[list[str]]]:
    """Header and lines: start-up time, idleness and memory of the group's peers."""
    header = ["peer", "start to first acknowledged record, s", "resident idle, MB",
              "CPU idle, ms per s", "resident after all rows, MB"]  # fmt: skip
    lines = []
    for peer in group.peers:
        startup = results.startups.get(peer)
        ack = idle = idle_cpu = "-"
        if startup is not None:
            ack = with_limit(startup.first_ack_s, TARGET_FIRST_ACK_S.get(peer), ".2f")
            if startup.idle.resident_bytes is not None:
                idle_mb = startup.idle.resident_bytes / 1e6
                idle = with_limit(idle_mb, TARGET_IDLE_MB.get(peer), ",.0f")
            if startup.idle.cpu_ms_per_s is not None:
                idle_cpu = f"{startup.idle.cpu_ms_per_s:.1f}"
        after = group.memory_after.get(peer)
        lines.append([peer, ack, idle, idle_cpu, "-" if after is None else f"{after / 1e6:,.0f}"])
    return header, lines


def rich_tables(results: Results) -> list[Table]:
    """The tables for a terminal."""
    named = []
    for group in results.groups:
        named += [
            (f"Apache Kafka and Highwater in turns, {group.title}", row_table(group)),
            (f"Start and memory, {group.title}", startup_table(results, group)),
        ]
    return [rich_table(title, header, lines) for title, (header, lines) in named if lines]


def markdown(results: Results, group: Group) -> str:
    """The group's section of docs/benchmarks.md."""
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
        *(f"- {peer}: {results.versions[peer]}" for peer in group.peers),
        "",
        *markdown_table(*row_table(group)),
        "",
        *markdown_table(*startup_table(results, group)),
    ]
    failures = [
        f"- {row.workload.name}, {peer}: {text.splitlines()[0]}"
        for row in group.rows
        for peer, text in row.failures.items()
    ]
    if failures:
        parts += ["", "Failed:", "", *failures]
    return "\n".join(parts) + "\n"


def as_json(results: Results) -> dict[str, Any]:
    """Every sample, for later comparison."""
    return {
        "command": results.command,
        "machine": machine(),
        "versions": results.versions,
        "startups": {peer: asdict(found) for peer, found in results.startups.items()},
        "memory_after": {group.title: group.memory_after for group in results.groups},
        "rows": [
            {
                "name": row.workload.name,
                "group": group.title,
                "unit": row.workload.metric.value,
                "samples": {peer: [asdict(s) for s in row.samples[peer]] for peer in row.samples},
                "failures": row.failures,
            }
            for group in results.groups
            for row in group.rows
        ],
    }
