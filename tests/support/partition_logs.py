"""The bytes of a partition's log on each node of a cluster, read from its files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from highwater.kafka.records.batch import BatchHeader, read_header
from tests.support.process import wait_until

_BATCH_OVERHEAD = 12
_HEADER_BYTES = 61
_SAME_TIMEOUT_S = 20.0


class Nodes(Protocol):
    """The part of a cluster that is needed here."""

    @property
    def node_ids(self) -> tuple[int, ...]: ...

    def data_dir(self, node_id: int) -> Path: ...


def segments(directory: Path) -> list[Path]:
    """The .log files of a partition's directory, in order of their offsets."""
    return sorted(directory.glob("*.log"))


def log_bytes(directory: Path) -> bytes:
    """All record batches of a partition, as they are on disk; nothing if there is no log."""
    return b"".join(segment.read_bytes() for segment in segments(directory))


def headers(data: bytes) -> list[BatchHeader]:
    """The headers of all batches before the first one that is cut off."""
    found, position = [], 0
    while position + _HEADER_BYTES <= len(data):
        header = read_header(data, position)
        position += header.batch_length + _BATCH_OVERHEAD
        if position > len(data):
            break
        found.append(header)
    return found


def end_offset(directory: Path) -> int:
    """The offset after the last whole batch; 0 for an empty log."""
    last = headers(log_bytes(directory))[-1:]
    return last[0].base_offset + last[0].last_offset_delta + 1 if last else 0


def assert_identical_logs(
    cluster: Nodes, topic: str, partition: int, nodes: Iterable[int] | None = None
) -> int:
    """Asserts that all nodes (or the given ones) have the same bytes; returns their number.

    To be called when writes have ended. Replicas may have rolled their segments at different
    offsets, so bytes are compared, not files.
    """
    having = cluster.node_ids if nodes is None else nodes
    directories = {n: cluster.data_dir(n) / f"{topic}-{partition}" for n in having}

    def same() -> bool:
        first, *others = (log_bytes(directory) for directory in directories.values())
        return all(other == first for other in others)

    try:
        wait_until(same, timeout_s=_SAME_TIMEOUT_S, what=f"the same log of {topic}-{partition}")
    except TimeoutError as error:
        raise AssertionError(f"{error}:\n{_differences(directories)}") from None
    return len(log_bytes(next(iter(directories.values()))))


def _differences(directories: dict[int, Path]) -> str:
    """Describes each log: its length, and where it differs from the first node's."""
    logs = {node: log_bytes(directory) for node, directory in directories.items()}
    first = next(iter(logs.values()))
    lines = []
    for node, data in logs.items():
        batches = headers(data)
        line = f"node {node}: {len(data)} bytes, {len(batches)} batches, end {_end(batches)}"
        if data != first:
            common = next(
                (at for at, (a, b) in enumerate(zip(data, first, strict=False)) if a != b),
                min(len(data), len(first)),
            )
            line += f", as the first up to byte {common}"
        epochs = sorted({batch.leader_epoch for batch in batches})
        lines.append(f"{line}, leader epochs {epochs[-5:]}")
    return "\n".join(lines)


def _end(batches: list[BatchHeader]) -> int:
    return batches[-1].base_offset + batches[-1].last_offset_delta + 1 if batches else 0
