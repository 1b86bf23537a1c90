"""Tests of kafka-python's suite that do not pass, each with its reason."""

from __future__ import annotations

from typing import Final

from tests.compat.kafka_python.verdict import Exclusion

EVERYWHERE: Final = (
    Exclusion(
        tests="test_consumer_integration::test_kafka_consumer_offsets_for_time_old",
        reason="for brokers before 0.10.1; it skips itself",
    ),
)
"""Also with node id 0."""

THREE_NODES: Final = (
    *EVERYWHERE,
    Exclusion(
        tests="test_admin_integration::test_create_partitions",
        reason="it assigns new partitions to node 0, and the ids of several nodes begin with 1",
    ),
    Exclusion(
        tests="test_admin_integration::test_delete_records",
        reason="it takes the records of all partitions from one poll, which ends with the first node's answer",
        may_pass=True,
    ),
    Exclusion(
        tests="test_admin_integration::test_alter_replica_log_dirs",
        reason="it asks one broker for a replica that another one may have: REPLICA_NOT_AVAILABLE, as "
        "with Kafka",
        may_pass=True,
    ),
)
