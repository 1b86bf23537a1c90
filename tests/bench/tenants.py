"""`python -m tests.bench.tenants`: what tenants cost one another, and what logins cost.

Each row measures one load twice, in turns: alone, and beside something else. `neighbour-*`: a quiet
instance at 500 requests a second, and another one that floods the same node with records, connections,
bad logins or metadata. `instances-*`: a node with so many instances of ten topics, and one without.
`sasl-*`: a listener with logins, and one without.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from statistics import median
from typing import Final

from rich.console import Console

from tests.bench import load
from tests.bench.command_line import command_of, parser_of, teller
from tests.bench.document import (
    DOCUMENT,
    Section,
    machine,
    markdown_table,
    rich_table,
    save_json,
    write_section,
)
from tests.bench.processes import end_orderly_on_sigterm
from tests.bench.tenant_scene import Scene, flood, produce_flood
from tests.bench.workloads import KIB, Metric, Workload

MODULE: Final = "tests.bench.tenants"
SECTION: Final = Section(name="tenants", target="bench-tenants")
HEADER: Final = [
    "row", "load", "alone", "beside", "ratio", "p99 alone, us", "p99 beside, us", "wanted, us",
]  # fmt: skip
P99_RATIO_MAX: Final = 1.5
P99_MORE_US: Final = 1_000.0
"""A neighbour may cost the larger one of the two."""
QUIET_REQUESTS_PER_S: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What the generator measured in one window."""

    value: float
    p99_us: float


@dataclass(slots=True, kw_only=True)
class Row:
    """One load, alone and beside something, in pairs of windows."""

    name: str
    workload: Workload
    judged: bool = False
    """Whether p99 has a limit."""
    alone: list[Window] = field(default_factory=list)
    beside: list[Window] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Beside to alone, the median over pairs."""
        pairs = zip(self.alone, self.beside, strict=True)
        return median(beside.value / alone.value for alone, beside in pairs)

    @property
    def p99_us(self) -> tuple[float, float]:
        """The medians of p99, alone and beside."""
        return (
            median(one.p99_us for one in self.alone),
            median(one.p99_us for one in self.beside),
        )

    @property
    def missed(self) -> bool:
        """Whether the neighbour costs more than it may."""
        alone, beside = self.p99_us
        return self.judged and beside > allowed_us(alone)


def allowed_us(alone_us: float) -> float:
    """What p99 may be beside a noisy neighbour."""
    return max(P99_RATIO_MAX * alone_us, alone_us + P99_MORE_US)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Where a load goes, and what goes on meanwhile."""

    target: load.Target
    noise: Callable[[], AbstractContextManager[object]] = nullcontext


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A row that can be run: `sides` starts what it needs, and gives alone and beside."""

    name: str
    workload: Workload
    sides: Callable[[ExitStack, str], tuple[Side, Side]]
    judged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Of windows, in seconds, and how many pairs."""

    pairs: int = 5
    seconds: float = 10.0
    warmup_seconds: float = 2.0


QUICK: Final = Lengths(pairs=1, seconds=1.0, warmup_seconds=0.5)


def _load(name: str, connections: int, in_flight: int, nbytes: int, metric: Metric) -> Workload:
    return Workload(
        name=name, request_bytes=nbytes, connections=connections, in_flight=in_flight,
        partitions=12, metric=metric,
        rate=QUIET_REQUESTS_PER_S if metric is Metric.MEDIAN_LATENCY else None,
    )  # fmt: skip


QUIET: Final = _load("latency-200b-500rps", 10, 8, 200, Metric.MEDIAN_LATENCY)
SMALL: Final = _load("produce-200b-50x8", 50, 8, 200, Metric.REQUESTS)
LARGE: Final = _load("produce-16k-10x8", 10, 8, 16 * KIB, Metric.MEGABYTES)


def _neighbour(kind: str) -> Plan:
    def sides(stack: ExitStack, topic: str) -> tuple[Side, Side]:
        scene = stack.enter_context(Scene())
        quiet = load.Target(bootstrap=scene.instance("quiet"), topic=topic)
        scene.create_topic(quiet, QUIET.partitions)
        if kind == "produce":
            noisy = load.Target(bootstrap=scene.limited_instance("noisy"), topic="noise")
            scene.create_topic(noisy, QUIET.partitions)
            return Side(target=quiet), Side(target=quiet, noise=lambda: produce_flood(noisy))
        address = scene.instance("noisy", topics=100, login=kind == "logins")
        return Side(target=quiet), Side(target=quiet, noise=lambda: flood(kind, address))

    return Plan(name=f"neighbour-{kind}", workload=QUIET, sides=sides, judged=True)


def _instances(count: int, workload: Workload) -> Plan:
    def sides(stack: ExitStack, topic: str) -> tuple[Side, Side]:
        scenes = stack.enter_context(Scene()), stack.enter_context(Scene())
        scenes[1].instances(count, topics=10)
        both = [load.Target(bootstrap=one.bootstrap, topic=topic) for one in scenes]
        for scene, target in zip(scenes, both, strict=True):
            scene.create_topic(target, workload.partitions)
        return Side(target=both[0]), Side(target=both[1])

    return Plan(name=f"instances-{count}/{workload.name}", workload=workload, sides=sides)


def _sasl(workload: Workload) -> Plan:
    def sides(stack: ExitStack, topic: str) -> tuple[Side, Side]:
        scene = stack.enter_context(Scene())
        plain = load.Target(bootstrap=scene.bootstrap, topic=topic)
        scene.create_topic(plain, workload.partitions)
        login = scene.create_user()
        secured = load.Target(bootstrap=scene.login_bootstrap, topic=topic, login=login)
        return Side(target=plain), Side(target=secured)

    return Plan(name=f"sasl/{workload.name}", workload=workload, sides=sides)


PLANS: Final = (
    *(_neighbour(kind) for kind in ("produce", "connections", "logins", "metadata")),
    *(_instances(count, workload) for count in (10, 1_000) for workload in (QUIET, SMALL)),
    *(_sasl(workload) for workload in (SMALL, LARGE)),
)


def select(patterns: Sequence[str]) -> tuple[Plan, ...]:
    """Plans whose name matches a shell pattern. Raises ValueError if a pattern matches none."""
    for pattern in patterns:
        if not any(fnmatchcase(plan.name, pattern) for plan in PLANS):
            raise ValueError(f"no row is named like {pattern!r}")
    return tuple(p for p in PLANS if any(fnmatchcase(p.name, pattern) for pattern in patterns))


def measure(plan: Plan, lengths: Lengths, tell: Callable[[str], None]) -> Row:
    """Starts what the plan needs, measures in turns, and ends all. Raises LoadFailed."""
    row = Row(name=plan.name, workload=plan.workload, judged=plan.judged)
    with ExitStack() as stack:
        alone, beside = plan.sides(stack, f"bench-{plan.name.replace('/', '-')}")
        for target in {alone.target, beside.target}:
            load.run(plan.workload, target, seconds=lengths.seconds, warmup_seconds=0)
        for pair in range(lengths.pairs):
            both = [("alone", alone, row.alone), ("beside", beside, row.beside)]
            # The order changes from pair to pair.
            for name, side, windows in both if pair % 2 == 0 else both[::-1]:
                with side.noise():
                    found = load.run(
                        plan.workload,
                        side.target,
                        seconds=lengths.seconds,
                        warmup_seconds=lengths.warmup_seconds,
                    )
                value = found.value(plan.workload.metric)
                windows.append(Window(value=value, p99_us=found.latency_us["p99"]))
                tell(f"  {name}: {value:,.0f} {plan.workload.metric.value}, p99 "
                     f"{found.latency_us['p99']:,.0f} us")  # fmt: skip
    return row


def table(rows: Sequence[Row]) -> list[list[str]]:
    """One line per row; see HEADER."""
    lines = []
    for row in rows:
        alone, beside = row.p99_us
        wanted = f"< {allowed_us(alone):,.0f}: {'missed' if row.missed else 'reached'}"
        unit = row.workload.metric.value
        lines.append(
            [
                row.name.partition("/")[0],
                row.workload.name,
                f"{median(one.value for one in row.alone):,.0f} {unit}",
                f"{median(one.value for one in row.beside):,.0f} {unit}",
                f"{row.ratio:.2f}",
                f"{alone:,.0f}",
                f"{beside:,.0f}",
                wanted if row.judged else "",
            ]
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, 1 if a neighbour cost more than it may, or 2 for an invalid command line."""
    parser = parser_of(MODULE, __doc__, quick="one pair of windows of a second")
    parser.add_argument("--rows", default="*", help="comma-separated shell patterns")
    parser.add_argument("--list", action="store_true", help="print all rows and end")
    options = parser.parse_args(arguments)
    if options.list:
        sys.stdout.writelines(f"{plan.name}\n" for plan in PLANS)
        return 0
    try:
        plans = select(options.rows.split(","))
    except ValueError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 2
    console = Console(width=None if sys.stdout.isatty() else 200)
    tell = teller(console)
    load.build()
    rows = []
    for plan in plans:
        tell(plan.name)
        rows.append(measure(plan, QUICK if options.quick else Lengths(), tell))
    console.print(rich_table("Tenants on one node, embedded", HEADER, table(rows)))
    command = command_of(MODULE, arguments)
    content = {
        "command": command,
        "machine": machine(),
        "rows": [
            {"name": row.name, "alone": [asdict(one) for one in row.alone],
             "beside": [asdict(one) for one in row.beside]}
            for row in rows
        ],
    }  # fmt: skip
    console.print(f"Every sample: {save_json('tenants-', content)}")
    if options.write_document:
        parts = [f"Command: `{command}`", "", *(f"- {line}" for line in machine())]
        parts += ["", *markdown_table(HEADER, table(rows))]
        write_section(DOCUMENT, SECTION, "\n".join(parts) + "\n")
    return 1 if any(row.missed for row in rows) else 0


if __name__ == "__main__":
    end_orderly_on_sigterm()
    sys.exit(main())
