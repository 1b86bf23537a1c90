"""The checks after a run; each compares a result with the file that was sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from itertools import pairwise
from typing import Any

from highwater.spark.combined_log import parse
from highwater.spark.report import HourTraffic, PathTraffic, Report, StatusCount
from tools.demo.consuming import ReadBack
from tools.demo.producing import Acknowledged


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check with its result."""

    name: str
    holds: bool
    found: str


def check_acknowledged(lines: Sequence[bytes], acknowledged: Acknowledged) -> Check:
    """Checks that every line was acknowledged once, and each partition has them in order."""
    numbers = Counter(
        number for records in acknowledged.by_partition.values() for _, number in records
    )
    once = len(numbers) == len(lines) and all(count == 1 for count in numbers.values())
    ordered = all(
        _rises([offset for offset, _ in by_number])
        for by_number in (
            sorted(records, key=lambda record: record[1])
            for records in acknowledged.by_partition.values()
        )
    )
    return Check(
        name="Every line acknowledged once, in order",
        holds=once and ordered,
        found=f"{acknowledged.count:,} of {len(lines):,}" + ("" if ordered else ", out of order"),
    )


def check_count(lines: Sequence[bytes], read: ReadBack) -> Check:
    """Checks that the group got as many records of this run as there are lines."""
    others = f" (earlier runs: {read.others:,})" if read.others else ""
    return Check(
        name="Read back through the group",
        holds=read.count == len(lines),
        found=f"{read.count:,} of {len(lines):,}{others}",
    )


def check_content(lines: Sequence[bytes], acknowledged: Acknowledged, read: ReadBack) -> Check:
    """Checks that each partition has the acknowledged lines, unchanged, at their offsets."""
    wrong = 0
    for partition in acknowledged.by_partition.keys() | read.by_partition.keys():
        expected = [
            (offset, lines[number])
            for offset, number in sorted(acknowledged.by_partition.get(partition, []))
        ]
        got = read.by_partition.get(partition, [])
        wrong += sum(one != other for one, other in zip(expected, got, strict=False))
        wrong += abs(len(expected) - len(got))
    return Check(
        name="Same content and order in each partition",
        holds=wrong == 0,
        found=f"{len(read.by_partition)} partitions"
        + (f", {wrong:,} records differ" if wrong else ""),
    )


def check_committed(end_offsets: Mapping[int, int], read: ReadBack) -> Check:
    """Checks that the group's committed offsets are the partitions' end offsets."""
    behind = [
        partition for partition, end in end_offsets.items() if read.committed.get(partition) != end
    ]
    return Check(
        name="Group committed to the end",
        holds=not behind,
        found=f"{len(end_offsets) - len(behind)} of {len(end_offsets)} partitions",
    )


def check_report(expected: Report, report: Report) -> Check:
    """Checks Spark's report against one computed from the file without Spark or broker."""
    wrong = [
        name
        for name in ("records", "unparsed", "hours", "top_paths", "status_codes")
        if getattr(expected, name) != getattr(report, name)
    ]
    return Check(
        name="Spark's report equals a count of the file",
        holds=not wrong,
        found=f"{report.requests:,} requests, {len(report.hours)} hours"
        + (f"; different: {', '.join(wrong)}" if wrong else ""),
    )


def check_loaded(expected: Report, loaded: Mapping[str, Any]) -> Check:
    """Checks that the table has a row for each line that is in the log format, from a place of its own.

    `loaded` is what `session.load` returns.
    """
    rows, places, wanted = loaded["rows"], loaded["places"], expected.records - expected.unparsed
    return Check(
        name="Every line once in Spark's table",
        holds=rows == places == wanted,
        found=f"{rows:,} of {wanted:,}"
        + (f", {rows - places:,} doubled" if rows != places else ""),
    )


def check_audit(compared: Mapping[str, Any]) -> Check:
    """Checks that table and log were compared, and are equal. `compared` is an `AuditResult` as JSON."""
    different = len(compared["different"])
    return Check(
        name="Table and log are equal",
        holds=compared["records"] > 0 and not different,
        found=f"{compared['records']:,} records"
        + (f", {different:,} hours of partitions differ" if different else ""),
    )


def count_file(lines: Sequence[bytes], topic: str, *, top_paths: int) -> Report:
    """Returns the report that the job should give for these lines, computed in plain Python."""
    hours: dict[object, HourTraffic] = {}
    paths: dict[str, PathTraffic] = {}
    codes: Counter[int] = Counter()
    unparsed = 0
    for line in lines:
        request = parse(line.decode("utf-8", "replace"))
        if request is None:
            unparsed += 1
            continue
        start = request.time.astimezone(UTC).replace(minute=0, second=0)
        hour = hours.get(start) or HourTraffic(
            start=start, requests=0, size_bytes=0, client_errors=0, server_errors=0
        )
        hours[start] = replace(
            hour,
            requests=hour.requests + 1,
            size_bytes=hour.size_bytes + request.size_bytes,
            client_errors=hour.client_errors + (400 <= request.status < 500),
            server_errors=hour.server_errors + (request.status >= 500),
        )
        path = paths.get(request.path) or PathTraffic(path=request.path, requests=0, size_bytes=0)
        paths[request.path] = replace(
            path, requests=path.requests + 1, size_bytes=path.size_bytes + request.size_bytes
        )
        codes[request.status] += 1
    return Report(
        topic=topic,
        records=len(lines),
        unparsed=unparsed,
        hours=tuple(sorted(hours.values(), key=lambda hour: hour.start)),
        top_paths=tuple(sorted(paths.values(), key=lambda p: (-p.requests, p.path))[:top_paths]),
        status_codes=tuple(
            StatusCount(status=status, requests=requests)
            for status, requests in sorted(codes.items(), key=lambda code: (-code[1], code[0]))
        ),
    )


def _rises(numbers: Sequence[int]) -> bool:
    return all(one < other for one, other in pairwise(numbers))
