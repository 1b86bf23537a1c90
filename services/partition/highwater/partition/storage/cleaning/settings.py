"""Settings of the log cleaner, from the broker configs `log.cleaner.*` of its node."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from highwater.model.dynamic_config import broker_number

BACKOFF_MS_MIN: Final = 100
"""Kafka allows 0, but then the cleaner would look at all logs without a pause."""
NO_LIMIT_BYTES_PER_S: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The settings of a pass; a running pass keeps its own."""

    backoff_ms: int = 15_000
    """[log.cleaner.backoff.ms] Pause when there is nothing to clean."""
    dedupe_buffer_bytes: int = 128 << 20
    """[log.cleaner.dedupe.buffer.size] Size of the offset map; the next pass does other keys."""
    io_bytes_per_s: int = 0
    """[log.cleaner.io.max.bytes.per.second] Reading and writing together; 0 is no limit."""


def cleaner_settings(broker_configs: Mapping[str, str]) -> CleanerSettings:
    """Read them from a node's broker configs, under Kafka's names; the rest are defaults."""

    def number(name: str) -> float:
        return broker_number(f"log.cleaner.{name}", broker_configs)

    rate = number("io.max.bytes.per.second")
    return CleanerSettings(
        backoff_ms=max(int(number("backoff.ms")), BACKOFF_MS_MIN),
        dedupe_buffer_bytes=int(number("dedupe.buffer.size")),
        io_bytes_per_s=0 if rate >= NO_LIMIT_BYTES_PER_S else int(rate),
    )
