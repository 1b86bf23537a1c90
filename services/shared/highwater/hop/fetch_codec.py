"""FetchRequest and FetchResponse between `FetchWork` and bytes; used on both ends."""

import os
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.fetch import FetchedPartition, FetchPartition, FetchWork
from highwater.hop.framing import PLACEHOLDER, HopFramingError, frame, split
from highwater.model.ids import InstanceId, TopicId

PIECE_BYTES: Final = 1 << 20
"""Long answers travel in messages of this much payload (measured: 1 MiB costs least per byte)."""


class StoredRange(Protocol):
    """A `FileRange` that knows where its file lies, as the partition's storage gives it."""

    fd: int
    position: int
    length: int
    path: str
    log_dir: int
    inode: int


def call_of(work: FetchWork, call_id: int) -> pb.FetchCall:
    """The work as it travels."""
    topics: dict[TopicId, int] = {}
    call = pb.FetchCall(
        call_id=call_id,
        instance=work.instance,
        max_wait_ms=work.max_wait_ms,
        min_bytes=work.min_bytes,
        max_bytes=work.max_bytes,
        isolation_level=work.isolation_level,
    )
    asked = work.partitions
    for p in asked:
        if p.topic_id not in topics:
            topics[p.topic_id] = len(topics)
    call.topic_ids.extend(topics)
    call.topic.extend([topics[p.topic_id] for p in asked])
    call.partition.extend([p.partition for p in asked])
    call.current_leader_epoch.extend([p.current_leader_epoch for p in asked])
    call.fetch_offset.extend([p.fetch_offset for p in asked])
    call.last_fetched_epoch.extend([p.last_fetched_epoch for p in asked])
    call.partition_max_bytes.extend([p.max_bytes for p in asked])
    return call


def work_of(call: pb.FetchCall, done: Callable[[FetchWork], None]) -> FetchWork:
    """The node's side of `call_of`."""
    topic_ids = [TopicId(t) for t in call.topic_ids]
    columns = (
        call.topic,
        call.partition,
        call.current_leader_epoch,
        call.fetch_offset,
        call.last_fetched_epoch,
        call.partition_max_bytes,
    )
    if len({len(c) for c in columns}) != 1:
        raise HopFramingError("a fetch call's arrays differ in length")
    work = FetchWork(
        instance=InstanceId(call.instance),
        partitions=[
            FetchPartition(topic_ids[t], p, e, o, le, m)
            for t, p, e, o, le, m in zip(*columns, strict=True)
        ],
        max_wait_ms=call.max_wait_ms,
        min_bytes=call.min_bytes,
        max_bytes=call.max_bytes,
        isolation_level=call.isolation_level,
        done=done,
    )
    work.call_id = call.call_id
    return work


def encode_response(work: FetchWork, references: bool) -> list[bytes]:
    """The answer as messages: one with references, one or more with bytes read from the files.

    Releases the ranges of `work.results`; with references too, since the reader opens its own.
    """
    results = work.results
    header = pb.FetchResponse(header_bytes=PLACEHOLDER, call_id=work.call_id)
    header.error_code.extend([r.error_code for r in results])
    header.high_watermark.extend([r.high_watermark for r in results])
    header.last_stable_offset.extend([r.last_stable_offset for r in results])
    header.log_start_offset.extend([r.log_start_offset for r in results])
    header.record_bytes.extend([r.nbytes for r in results])
    header.details.extend(_details(results))
    payload: list[bytes] = []
    for index, result in enumerate(results):
        if not result.nbytes:
            continue
        records = result.records
        if references:
            header.references.add(
                index=index,
                path=records.path,
                log_dir=records.log_dir,
                inode=records.inode,
                position=records.position,
            )
        else:
            payload.append(_read_range(records))
        result.release()
    return list(_pieces(header, payload))


def _pieces(header: pb.FetchResponse, payload: list[bytes]) -> Iterable[bytes]:
    body = payload[0] if len(payload) == 1 else b"".join(payload)
    header.done = len(body) <= PIECE_BYTES
    first = memoryview(body)[:PIECE_BYTES]
    yield frame(header.SerializeToString(), [first], len(first))
    for start in range(PIECE_BYTES, len(body), PIECE_BYTES):
        piece = memoryview(body)[start : start + PIECE_BYTES]
        following = pb.FetchResponse(
            header_bytes=PLACEHOLDER,
            call_id=header.call_id,
            done=start + PIECE_BYTES >= len(body),
        )
        yield frame(following.SerializeToString(), [piece], len(piece))


def _read_range(records: Any) -> bytes:
    data = os.pread(records.fd, records.length, records.position)
    if len(data) != records.length:
        raise OSError(f"{len(data)} of {records.length} bytes at {records.position}")
    return data


def _details(results: list[FetchedPartition]) -> Iterable[pb.FetchPartitionDetail]:
    for index, result in enumerate(results):
        aborted = result.aborted_transactions
        if not aborted and result.diverging_epoch < 0 and result.leader_epoch < 0:
            continue
        yield pb.FetchPartitionDetail(
            index=index,
            aborted_transactions=[
                pb.AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted or ()
            ],
            diverging_epoch=result.diverging_epoch,
            diverging_end_offset=result.diverging_end_offset,
            leader=result.leader,
            leader_epoch=result.leader_epoch,
        )


def parse_response(message: bytes) -> tuple[pb.FetchResponse, memoryview]:
    """(header, payload) of one message."""
    head, payload = split(message)
    return pb.FetchResponse.FromString(head), payload


def results_of(header: pb.FetchResponse, read_committed: bool) -> list[FetchedPartition]:
    """Results of a first message; records are still to be filled in by the caller."""
    results = [
        FetchedPartition(error, hw, lso, start, b"", nbytes)
        for error, hw, lso, start, nbytes in zip(
            header.error_code,
            header.high_watermark,
            header.last_stable_offset,
            header.log_start_offset,
            header.record_bytes,
            strict=True,
        )
    ]
    if read_committed:
        for result in results:
            result.aborted_transactions = []
    for detail in header.details:
        result = results[detail.index]
        result.diverging_epoch = detail.diverging_epoch
        result.diverging_end_offset = detail.diverging_end_offset
        result.leader = detail.leader
        result.leader_epoch = detail.leader_epoch
        if detail.aborted_transactions:
            result.aborted_transactions = [
                (a.producer_id, a.first_offset) for a in detail.aborted_transactions
            ]
    return results
