"""Configs in force: what is altered holds for the next request, and what is told is what holds."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from crc32c import crc32c

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestDescribeConfigsResource,
)
from highwater.kafka.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from highwater.kafka.records.batch import is_log_append_time
from tests.conformance.protocol.requests import (
    batch,
    batches_of,
    fetch,
    list_offset,
    now_ms,
    produce,
)
from tests.support.cluster import Cluster
from tests.support.wire import RawConnection, only

_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_STATIC, _DEFAULT = 4, 5
_LATEST = -1
_HOUR_MS = 3_600_000
_CLOCKS_DIFFER_MS = 60_000

# Places in the header of a record batch.
_CRC_AT, _CRC_FROM, _LAST_OFFSET_DELTA_AT, _COUNT_AT = 17, 21, 23, 57


def _alter(
    connection: RawConnection, resource: tuple[int, str], name: str, value: str | None
) -> Any:
    """Sets a config, or takes it away for None; the resource's part of the reply."""
    change = IncrementalAlterConfigsRequestAlterableConfig(
        name=name, config_operation=_DELETE if value is None else _SET, value=value
    )
    wanted = IncrementalAlterConfigsRequestAlterConfigsResource(*resource, [change])
    return only(connection.ask(IncrementalAlterConfigsRequest(resources=[wanted]), 1).responses)


def _describe(connection: RawConnection, resource: tuple[int, str]) -> dict[str, Any]:
    asked = DescribeConfigsRequestDescribeConfigsResource(*resource, configuration_keys=None)
    result = only(connection.ask(DescribeConfigsRequest(resources=[asked]), 4).results)
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {config.name: config for config in result.configs}


def _with_a_missing_record() -> bytes:
    """A batch whose header is right in itself, and says one record more than there is."""
    changed = bytearray(batch([b"a" * 20, b"b" * 20]))
    struct.pack_into(">i", changed, _LAST_OFFSET_DELTA_AT, 2)
    struct.pack_into(">i", changed, _COUNT_AT, 3)
    struct.pack_into(">I", changed, _CRC_AT, crc32c(bytes(changed[_CRC_FROM:])))
    return bytes(changed)


@contextmanager
def _for_all_brokers(connection: RawConnection, name: str, value: str) -> Iterator[None]:
    """The cluster belongs to other tests too: whatever happens, the config is taken back."""
    assert _alter(connection, (_BROKER, ""), name, value).error_code == ErrorCode.NONE
    try:
        yield
    finally:
        assert _alter(connection, (_BROKER, ""), name, None).error_code == ErrorCode.NONE


@pytest.mark.core
def test_a_smaller_limit_holds_for_the_next_produce(
    connection: RawConnection, made_topic: str
) -> None:
    records = batch([b"x" * 2000])
    assert produce(connection, made_topic, records).error_code == ErrorCode.NONE
    resource = (_TOPIC, made_topic)
    assert _alter(connection, resource, "max.message.bytes", "1000").error_code == ErrorCode.NONE
    assert produce(connection, made_topic, records).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(connection, made_topic, batch([b"small"])).error_code == ErrorCode.NONE
    assert _alter(connection, resource, "max.message.bytes", None).error_code == ErrorCode.NONE
    assert produce(connection, made_topic, records).error_code == ErrorCode.NONE
    assert list_offset(connection, made_topic, _LATEST).offset == 3


@pytest.mark.core
def test_the_broker_s_timestamps_from_now_on(connection: RawConnection, made_topic: str) -> None:
    sent_ms = now_ms() - _HOUR_MS
    records = batch([b"x", b"y"], timestamps=[sent_ms - 5, sent_ms])
    assert produce(connection, made_topic, records).log_append_time_ms == -1
    altered = _alter(connection, (_TOPIC, made_topic), "message.timestamp.type", "LogAppendTime")
    assert altered.error_code == ErrorCode.NONE
    part = produce(connection, made_topic, records)
    assert part.error_code == ErrorCode.NONE
    assert abs(part.log_append_time_ms - now_ms()) < _CLOCKS_DIFFER_MS
    own, stamped = batches_of(fetch(connection, made_topic, 0))
    assert own.header().max_timestamp == sent_ms
    assert not is_log_append_time(own.header().attributes)
    assert is_log_append_time(stamped.header().attributes)
    assert stamped.header().max_timestamp == part.log_append_time_ms


@pytest.mark.core
def test_deep_validation_looks_at_the_records(
    cluster: Cluster, connection: RawConnection, made_topic: str
) -> None:
    if cluster.mode in {"kafka", "external"}:
        pytest.skip("Kafka always looks at the records and has no config for it")
    bad = _with_a_missing_record()
    assert produce(connection, made_topic, bad).error_code == ErrorCode.NONE, "the header is fine"
    altered = _alter(connection, (_TOPIC, made_topic), "record.validation", "deep")
    assert altered.error_code == ErrorCode.NONE
    refused = produce(connection, made_topic, bad)
    assert refused.error_code in {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE}
    assert produce(connection, made_topic, batch([b"good"])).base_offset == 3


def test_brokers_configs_are_the_defaults_of_topics(
    connection: RawConnection, made_topic: str
) -> None:
    early = batch([b"x"], timestamps=[now_ms() + 2 * _HOUR_MS])
    assert produce(connection, made_topic, early).error_code == ErrorCode.INVALID_TIMESTAMP
    name = "log.message.timestamp.after.max.ms"
    with _for_all_brokers(connection, name, str(3 * _HOUR_MS)):
        assert produce(connection, made_topic, early).error_code == ErrorCode.NONE
        told = _describe(connection, (_TOPIC, made_topic))["message.timestamp.after.max.ms"]
        assert told.value == str(3 * _HOUR_MS)
    assert produce(connection, made_topic, early).error_code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("no.such.config", "1", "no.such.config"),
        ("retention.ms", "soon", "retention.ms"),
        ("cleanup.policy", "burn", "cleanup.policy"),
        ("min.insync.replicas", "0", "at least 1"),
    ],
)
def test_configs_that_no_topic_may_have(
    connection: RawConnection, made_topic: str, name: str, value: str, message: str
) -> None:
    refused = _alter(connection, (_TOPIC, made_topic), name, value)
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert message in refused.error_message


def test_what_brokers_were_started_with_is_read_only(
    cluster: Cluster, connection: RawConnection
) -> None:
    node = str(cluster.nodes[0].node_id)
    configs = _describe(connection, (_BROKER, node))
    delay = configs["group.initial.rebalance.delay.ms"]
    assert (delay.value, delay.config_source, delay.read_only) == ("0", _STATIC, True)
    assert not configs["log.retention.ms"].read_only
    assert configs["log.segment.bytes"].config_source == _DEFAULT
    refused = _alter(connection, (_BROKER, node), "group.initial.rebalance.delay.ms", "5")
    assert refused.error_code == ErrorCode.INVALID_REQUEST
