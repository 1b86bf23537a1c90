"""Settings of confluent-kafka that clients share while a fault breaks their connections."""

from __future__ import annotations

import logging
from typing import Any

PATIENT: dict[str, Any] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 5_000,
}


def quiet_logger() -> logging.Logger:
    """A logger that drops librdkafka's lines about connections that these tests break."""
    logger = logging.getLogger("tests.robustness.faults.librdkafka")
    logger.propagate = False
    logger.setLevel(logging.CRITICAL)
    return logger
