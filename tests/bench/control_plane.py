"""`python -m tests.bench.control_plane`: the cost of a dead node with many partitions.

A cluster of 100 000 partitions on 100 nodes loses a node that leads 3 000. How long do the decision
and its conversion take, and how long until a gateway routes by it? How long does an event loop stop
meanwhile? Everything runs in this process, on one core: wall-clock times need a quiet machine, CPU
times do not.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median

from rich.console import Console

from highwater.api.controller.v1 import cluster_pb2 as pb
from highwater.controller.core.membership import change_nodes, fence
from highwater.controller.core.partition_index import index_of
from highwater.gateway.routing.table import RoutingTable
from highwater.metadata.convert import delta_from_pb, delta_to_pb
from highwater.model.cluster import ClusterDelta, ClusterImage
from highwater.runtime.collector import THRESHOLDS
from tests.bench.command_line import command_of, parser_of, teller
from tests.bench.control_plane_scene import (
    RULES,
    Size,
    controller_of,
    end_node,
    gateway_of,
    image_of,
    watched_loop,
)
from tests.bench.document import (
    DOCUMENT,
    Section,
    machine,
    markdown_table,
    rich_table,
    save_json,
    with_limit,
    write_section,
)

MODULE = "tests.bench.control_plane"
SECTION = Section(name="control plane", target="bench-control")
HEADER = ["step", "median, ms", "worst, ms"]
STOP_LIMIT_MS = 5.0
QUIET_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One step with a time per round; `limit_ms` is None without a target."""

    name: str
    samples_ms: tuple[float, ...]
    limit_ms: float | None = None


def table(rows: Sequence[Row]) -> list[list[str]]:
    """One line per step; see HEADER."""
    return [
        [
            row.name,
            with_limit(median(row.samples_ms), row.limit_ms, ".1f"),
            format(max(row.samples_ms), ".1f"),
        ]
        for row in rows
    ]


def measure_steps(size: Size, rounds: int) -> list[Row]:
    """Measures each step separately, without a pause."""
    image = image_of(size)
    index = index_of(image)
    decide, convert, serialize, parse = [], [], [], []
    for node in size.victims[:rounds]:
        began = time.thread_time()
        decision = change_nodes(image, [fence(image.nodes[node])], RULES, index=index)
        decide.append(_ms_since(began))
        assert decision.delta is not None
        assert decision.result == 3 * size.partitions // size.nodes, "all of the node's partitions"
        message, took_ms = _converted(decision.delta)
        convert.append(took_ms)
        began = time.thread_time()
        wire = message.SerializeToString()
        serialize.append(_ms_since(began))
        began = time.thread_time()
        delta_from_pb(type(message).FromString(wire))
        parse.append(_ms_since(began))
    return [
        Row(name="decide: elections of the dead node's partitions, CPU", samples_ms=tuple(decide),
            limit_ms=50.0),
        Row(name="convert to protobuf, CPU", samples_ms=tuple(convert), limit_ms=30.0),
        Row(name="serialize, CPU", samples_ms=tuple(serialize)),
        Row(name="parse and convert back, CPU", samples_ms=tuple(parse)),
    ]  # fmt: skip


async def measure_together(size: Size, rounds: int) -> list[Row]:
    """From the decision to a gateway's routes, over gRPC; and the loop's stops meanwhile."""
    committed: list[float] = []
    reached: list[float] = []
    stopped: list[float] = []
    worked: list[float] = []
    collected: list[float] = []
    async with controller_of(image_of(size)) as (address, term), gateway_of(address) as gateway:
        published: dict[int, float] = {}
        hub = term.members._writer.hub
        publish = hub.publish

        def note(image: object, delta: ClusterDelta) -> None:
            published[delta.revision] = time.perf_counter()
            publish(image, delta)  # type: ignore[arg-type]

        hub.publish = note  # type: ignore[method-assign]
        for node in size.victims[:rounds]:
            await asyncio.sleep(QUIET_S)
            with watched_loop() as stops:
                began = time.perf_counter()
                elections, revision = await end_node(term, node)
                at = await gateway.at(revision)
            assert elections == 3 * size.partitions // size.nodes
            _check_routes(gateway.routing, term.image)
            committed.append((published[revision] - began) * 1e3)
            reached.append((at - published[revision]) * 1e3)
            stopped.append(stops.longest_ms)
            worked.append(stops.longest_cpu_ms)
            collected.append(stops.collector_ms)
    return [
        Row(name="commit: decide, store (in memory), index, image; by the clock", samples_ms=tuple(committed)),
        Row(name="reach a gateway: converted, serialized, received, routed by; by the clock",
            samples_ms=tuple(reached), limit_ms=100.0),
        Row(name="longest stop of the loop, commit to routes, CPU without garbage collection",
            samples_ms=tuple(worked), limit_ms=STOP_LIMIT_MS),
        Row(name="longest stop of the loop, by the clock (other processes count)",
            samples_ms=tuple(stopped)),
        Row(name="longest run of the garbage collector, CPU", samples_ms=tuple(collected)),
    ]  # fmt: skip


def _converted(delta: ClusterDelta) -> tuple[pb.ClusterChange, float]:
    began = time.thread_time()
    message = delta_to_pb(replace(delta, revision=2), {}, {})
    return message, _ms_since(began)


def _check_routes(routing: RoutingTable, image: ClusterImage) -> None:
    """Checks that the routes are right, so that the work was really done."""
    for topic in image.topics.values():
        routes = routing.by_id(topic.instance, topic.topic_id)
        assert routes is not None
        for route, state in zip(routes.partitions, topic.partitions, strict=True):
            assert (route.leader, route.leader_epoch) == (state.leader, state.leader_epoch)


def _ms_since(began: float) -> float:
    return (time.thread_time() - began) * 1e3


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 1 if a target was missed."""
    parser = parser_of(MODULE, __doc__, quick="a cluster of 2 000 partitions")
    parser.add_argument("--rounds", type=int, default=9, choices=range(1, 10), help="1 to 9 (9)")
    options = parser.parse_args(arguments)
    size = Size(topics=20) if options.quick else Size()
    console = Console(width=None if sys.stdout.isatty() else 160)
    tell = teller(console)
    gc.set_threshold(*THRESHOLDS)  # As every service does.
    tell(f"{size.partitions:,} partitions on {size.nodes} nodes; {options.rounds} nodes die")
    rows = measure_steps(size, options.rounds)
    rows += asyncio.run(measure_together(size, options.rounds))
    console.print(rich_table("A node that leads 3 % of the partitions dies", HEADER, table(rows)))
    command = command_of(MODULE, arguments)
    content = {"command": command, "machine": machine(), "rows": [asdict(row) for row in rows]}
    console.print(f"Every sample: {save_json('control-plane-', content)}")
    if options.write_document:
        parts = [f"Command: `{command}`", "", *(f"- {line}" for line in machine())]
        parts += ["", *markdown_table(HEADER, table(rows))]
        write_section(DOCUMENT, SECTION, "\n".join(parts) + "\n")
    missed = [r for r in rows if r.limit_ms is not None and median(r.samples_ms) >= r.limit_ms]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
