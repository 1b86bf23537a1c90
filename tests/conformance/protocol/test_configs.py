"""Configs in force: what is altered holds for the next request, and what is told is what holds."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
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
from highwater.kafka.records.compression import Compression
from tests.conformance.protocol.requests import (
    batch,
    batches_of,
    fetch,
    list_offset,
    now_ms,
    produce,
)
from tests.support.cluster import Cluster
from tests.support.process import wait_until
from tests.support.wire import RawConnection, only

_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_STATIC, _DEFAULT = 4, 5
_LATEST = -1
_HOUR_MS = 3_600_000
_CLOCKS_DIFFER_MS = 60_000
_LATE_S = 10.0

# Places in the header of a record batch.
_CRC_AT, _CRC_FROM, _LAST_OFFSET_DELTA_AT, _COUNT_AT = 17, 21, 23, 57
_RECORDS_AT = 61


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


def _resealed(changed: bytearray) -> bytes:
    struct.pack_into(">I", changed, _CRC_AT, crc32c(bytes(changed[_CRC_FROM:])))
    return bytes(changed)


def _claiming(count: int, compression: int) -> bytes:
    """A batch of two records whose header is right in itself, and says that there are `count`."""
    changed = bytearray(batch([b"a" * 20, b"b" * 20], compression=compression))
    struct.pack_into(">i", changed, _LAST_OFFSET_DELTA_AT, count - 1)
    struct.pack_into(">i", changed, _COUNT_AT, count)
    return _resealed(changed)


def _with_a_record_past_the_end() -> bytes:
    changed = bytearray(batch([b"a" * 20]))
    changed[_RECORDS_AT] += 2  # The length is a zigzag varint: one byte more than there is.
    return _resealed(changed)


_MALFORMED = {
    "too few records": lambda: _claiming(3, Compression.NONE),
    "too few records, gzip": lambda: _claiming(3, Compression.GZIP),
    "too many records": lambda: _claiming(1, Compression.NONE),
    "too many records, zstd": lambda: _claiming(1, Compression.ZSTD),
    "a record past the end": _with_a_record_past_the_end,
}


def _in_force(cluster: Cluster, holds: Callable[[], bool]) -> None:
    """Here what was altered holds when that is answered; a Kafka's brokers hear of it later."""
    if cluster.mode in {"kafka", "external"}:
        wait_until(holds, timeout_s=_LATE_S, what="a config that was altered")
    else:
        assert holds()


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
    cluster: Cluster, connection: RawConnection, made_topic: str
) -> None:
    records = batch([b"x" * 2000])
    taken = 0

    def answers(code: ErrorCode) -> bool:
        nonlocal taken
        got = produce(connection, made_topic, records).error_code
        taken += got == ErrorCode.NONE
        return bool(got == code)

    assert answers(ErrorCode.NONE)
    resource = (_TOPIC, made_topic)
    assert _alter(connection, resource, "max.message.bytes", "1000").error_code == ErrorCode.NONE
    _in_force(cluster, lambda: answers(ErrorCode.MESSAGE_TOO_LARGE))
    assert produce(connection, made_topic, batch([b"small"])).error_code == ErrorCode.NONE
    assert _alter(connection, resource, "max.message.bytes", None).error_code == ErrorCode.NONE
    _in_force(cluster, lambda: answers(ErrorCode.NONE))
    assert list_offset(connection, made_topic, _LATEST).offset == taken + 1


@pytest.mark.core
def test_the_broker_s_timestamps_from_now_on(
    cluster: Cluster, connection: RawConnection, made_topic: str
) -> None:
    sent_ms = now_ms() - _HOUR_MS
    records = batch([b"x", b"y"], timestamps=[sent_ms - 5, sent_ms])
    assert produce(connection, made_topic, records).log_append_time_ms == -1
    altered = _alter(connection, (_TOPIC, made_topic), "message.timestamp.type", "LogAppendTime")
    assert altered.error_code == ErrorCode.NONE
    stamps: list[int] = []

    def is_stamped() -> bool:
        part = produce(connection, made_topic, records)
        assert part.error_code == ErrorCode.NONE
        stamps.append(part.log_append_time_ms)
        return stamps[-1] >= 0

    _in_force(cluster, is_stamped)
    assert abs(stamps[-1] - now_ms()) < _CLOCKS_DIFFER_MS
    own, *_, stamped = batches_of(fetch(connection, made_topic, 0))
    assert own.header().max_timestamp == sent_ms
    assert not is_log_append_time(own.header().attributes)
    assert is_log_append_time(stamped.header().attributes)
    assert stamped.header().max_timestamp == stamps[-1]


@pytest.mark.core
@pytest.mark.parametrize("kind", _MALFORMED)
def test_deep_validation_looks_at_the_records(
    cluster: Cluster, connection: RawConnection, made_topic: str, kind: str
) -> None:
    bad = _MALFORMED[kind]()
    offset = 0
    if cluster.mode not in {"kafka", "external"}:  # Kafka always looks at the records.
        taken = produce(connection, made_topic, bad)
        assert taken.error_code == ErrorCode.NONE, "the header is fine"
        offset = list_offset(connection, made_topic, _LATEST).offset
        altered = _alter(connection, (_TOPIC, made_topic), "record.validation", "deep")
        assert altered.error_code == ErrorCode.NONE
    assert produce(connection, made_topic, bad).error_code == ErrorCode.INVALID_RECORD
    assert produce(connection, made_topic, batch([b"good"])).base_offset == offset


def test_brokers_configs_are_the_defaults_of_topics(
    cluster: Cluster, connection: RawConnection, made_topic: str
) -> None:
    early = batch([b"x"], timestamps=[now_ms() + 2 * _HOUR_MS])

    def answers(code: ErrorCode) -> bool:
        return bool(produce(connection, made_topic, early).error_code == code)

    assert answers(ErrorCode.INVALID_TIMESTAMP)
    name = "log.message.timestamp.after.max.ms"
    with _for_all_brokers(connection, name, str(3 * _HOUR_MS)):
        _in_force(cluster, lambda: answers(ErrorCode.NONE))
        told = _describe(connection, (_TOPIC, made_topic))["message.timestamp.after.max.ms"]
        assert told.value == str(3 * _HOUR_MS)
    _in_force(cluster, lambda: answers(ErrorCode.INVALID_TIMESTAMP))


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
