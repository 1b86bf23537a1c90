"""Fetch replies from results: their content, and which parts are sent from files."""

import errno
import os

import pytest

from highwater.gateway.data_plane import fetch_encoding
from highwater.gateway.data_plane.fetch_encoding import (
    encode_parts,
    partition_data,
    read_small,
    settle_refusal,
)
from highwater.gateway.routing.brokers import Entrance
from highwater.gateway.routing.current_leader import CurrentLeader
from highwater.hop.fetch import SMALL_RANGE, FetchedPartition
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import fetch
from tests.unit.gateway.wires import Segment


@pytest.fixture
def segment(tmp_path):
    with Segment(tmp_path / "log", 1 << 20) as made:
        yield made


def found(records, nbytes):
    return FetchedPartition(0, 90, 80, 10, records, nbytes)


def decoded(parts, version):
    """The reply as the client reads it; `parts` are bytes or ranges of segments."""
    frame = b"".join(
        part if type(part) is bytes else os.pread(part.fd, part.length, part.position)
        for part in parts
    )
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert int.from_bytes(frame[4:8], "big") == 77
    return fetch.decode_response(frame, 9 if version >= 12 else 8, version)


@pytest.mark.parametrize("version", range(4, 13))
def test_files_are_separate_parts_between_bytes(segment, version):
    large = SMALL_RANGE + 1
    results = [
        found(segment.range(5, large), large),
        found(b"some bytes", 10),
        found(segment.range(9, large), large),
    ]
    topic = fetch.FetchResponseFetchableTopicResponse(
        topic="orders", partitions=[partition_data(n, one) for n, one in enumerate(results)]
    )
    parts = encode_parts(version, 77, [topic], 300)
    assert [type(part) is bytes for part in parts][:4] == [True, False, True, False]
    response = decoded(parts, version)
    assert response.throttle_time_ms == 300
    ((first, second, third),) = [t.partitions for t in response.responses]
    assert bytes(first.records) == segment.data[5 : 5 + large]
    assert bytes(second.records) == b"some bytes"
    assert bytes(third.records) == segment.data[9 : 9 + large]
    assert (first.high_watermark, first.last_stable_offset) == (90, 80)
    assert first.log_start_offset == (10 if version >= 5 else -1)


def test_small_ranges_are_read_and_released(segment):
    part = segment.range(7, SMALL_RANGE)
    data = partition_data(0, found(part, SMALL_RANGE))
    assert data.records == segment.data[7 : 7 + SMALL_RANGE]
    assert part.released == 1


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EOPNOTSUPP])
def test_a_range_that_is_not_in_memory_stays_a_range(segment, monkeypatch, code):
    def would_block(*_):
        raise OSError(code, "not in memory")

    monkeypatch.setattr(fetch_encoding.os, "preadv", would_block)
    part = segment.range(0, 100)
    result = found(part, 100)
    read_small(result, result.records)
    assert (result.records, part.released) == (part, 0)


def test_a_read_error_is_answered_as_a_storage_error(segment, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(fetch_encoding.os, "preadv", broken)
    part = segment.range(0, 100)
    result = found(part, 100)
    read_small(result, result.records)
    assert (result.error_code, result.nbytes) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
    assert part.released == 1


STORAGE, NOT_AVAILABLE, NOT_LEADER = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


@pytest.mark.parametrize(
    ("version", "code", "told"),
    [
        (4, STORAGE, NOT_LEADER),
        (5, STORAGE, NOT_LEADER),
        (6, STORAGE, STORAGE),
        (12, STORAGE, STORAGE),
        (4, NOT_AVAILABLE, NOT_LEADER),
        (10, NOT_AVAILABLE, NOT_LEADER),
        (11, NOT_AVAILABLE, NOT_AVAILABLE),
        (12, NOT_AVAILABLE, NOT_AVAILABLE),
        (4, ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_codes_that_older_clients_do_not_know(version, code, told):
    refused = FetchedPartition(code)
    assert settle_refusal(version, None, 0, refused, Entrance()) is None
    assert refused.error_code == told


@pytest.mark.parametrize(
    ("version", "told"), [(4, NOT_LEADER), (5, NOT_LEADER), (6, STORAGE), (12, STORAGE)]
)
def test_a_disk_that_fails_while_a_reply_is_made(segment, monkeypatch, version, told):
    def broken(*_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(fetch_encoding.os, "preadv", broken)
    results = [found(segment.range(0, 100), 100), found(b"some bytes", 10)]
    topic = fetch.FetchResponseFetchableTopicResponse(
        topic="orders", partitions=[partition_data(n, one) for n, one in enumerate(results)]
    )
    response = decoded(encode_parts(version, 77, [topic], 0), version)
    assert [one.error_code for one in response.responses[0].partitions] == [told, 0]


def test_sparse_fields():
    result = FetchedPartition(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    result.diverging_epoch, result.diverging_end_offset = 3, 44
    result.aborted_transactions = [(8, 9)]
    data = partition_data(6, result, CurrentLeader(2, 7, None))
    assert (data.partition_index, data.error_code) == (6, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (2, 7)
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (3, 44)
    [aborted] = data.aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (8, 9)
