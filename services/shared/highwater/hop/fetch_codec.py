"""FetchRequest and FetchResponse between `FetchWork` and bytes; used on both ends.

Flat arrays on purpose: a message is built by a few `extend` calls whatever the number of fetches
in it, where a submessage per fetch would cost more than the fetch.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.fetch import READ_COMMITTED, FetchedPartition, FetchPartition, FetchWork
from highwater.hop.framing import PLACEHOLDER, HopFramingError, frame, split
from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId, TopicId

PIECE_BYTES: Final = 1 << 20
"""Payload of one message (measured: 1 MiB costs least per byte)."""


def encode_request(works: Sequence[FetchWork], cancelled: Sequence[int], references: bool) -> bytes:
    """One message; every work has its `call_id`."""
    request = pb.FetchRequest(cancelled_call_ids=cancelled, accepts_references=references)
    topics: dict[TopicId, int] = {}
    instances: dict[InstanceId, int] = {}
    asked = [p for work in works for p in work.partitions]
    for p in asked:
        topics.setdefault(p.topic_id, len(topics))
    for work in works:
        instances.setdefault(work.instance, len(instances))
    request.call_id.extend([w.call_id for w in works])
    request.call_partitions.extend([len(w.partitions) for w in works])
    request.call_instance.extend([instances[w.instance] for w in works])
    request.max_wait_ms.extend([w.max_wait_ms for w in works])
    request.min_bytes.extend([w.min_bytes for w in works])
    request.max_bytes.extend([w.max_bytes for w in works])
    request.isolation_level.extend([w.isolation_level for w in works])
    request.instances.extend(instances)
    request.topic_ids.extend(topics)
    request.topic.extend([topics[p.topic_id] for p in asked])
    request.partition.extend([p.partition for p in asked])
    request.current_leader_epoch.extend([p.current_leader_epoch for p in asked])
    request.fetch_offset.extend([p.fetch_offset for p in asked])
    request.last_fetched_epoch.extend([p.last_fetched_epoch for p in asked])
    request.partition_max_bytes.extend([p.max_bytes for p in asked])
    return request.SerializeToString()


def decode_request(message: bytes) -> pb.FetchRequest:
    """The request; raises HopFramingError."""
    try:
        return pb.FetchRequest.FromString(message)
    except DecodeError as error:
        raise HopFramingError(f"malformed FetchRequest: {error}") from None


def works_of(request: pb.FetchRequest, done: Callable[[FetchWork], None]) -> list[FetchWork]:
    """The node's side of `encode_request`. Raises HopFramingError."""
    topic_ids = [TopicId(t) for t in request.topic_ids]
    instances = [InstanceId(i) for i in request.instances]
    try:
        asked = [
            FetchPartition(topic_ids[t], p, e, o, le, m)
            for t, p, e, o, le, m in zip(
                request.topic,
                request.partition,
                request.current_leader_epoch,
                request.fetch_offset,
                request.last_fetched_epoch,
                request.partition_max_bytes,
                strict=True,
            )
        ]
        works = []
        at = 0
        for call_id, count, instance, wait, least, most, isolation in zip(
            request.call_id,
            request.call_partitions,
            request.call_instance,
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            request.isolation_level,
            strict=True,
        ):
            work = FetchWork(
                instance=instances[instance],
                partitions=asked[at : at + count],
                max_wait_ms=wait,
                min_bytes=least,
                max_bytes=most,
                isolation_level=isolation,
                done=done,
            )
            work.call_id = call_id
            works.append(work)
            at += count
    except (ValueError, IndexError) as error:
        raise HopFramingError(f"a fetch message's arrays do not fit together: {error}") from error
    if at != len(asked):
        raise HopFramingError(f"{len(asked)} partitions for calls that ask for {at}")
    return works


class ResponseWriter:
    """Collects answered works into messages. Releases their ranges.

    With references it names places; a reader opens the files for itself. Otherwise it reads the
    bytes, and cuts long answers into pieces.
    """

    def __init__(self, *, references: bool) -> None:
        self._references = references
        self._messages: list[bytes] = []
        self._new_message()

    def _new_message(self) -> None:
        self._header = pb.FetchResponse(header_bytes=PLACEHOLDER)
        self._payload: list[Any] = []
        self._nbytes = 0
        self._partitions = 0

    def add(self, work: FetchWork) -> None:
        """Adds one answer."""
        header = self._header
        results = work.results
        records = [] if self._references else _read_ranges(results)
        header.call_id.append(work.call_id)
        header.call_partitions.append(len(results))
        header.throttle_ms.append(work.throttle_ms)
        header.error_code.extend([r.error_code for r in results])
        header.high_watermark.extend([r.high_watermark for r in results])
        header.last_stable_offset.extend([r.last_stable_offset for r in results])
        header.log_start_offset.extend([r.log_start_offset for r in results])
        header.record_bytes.extend([r.nbytes for r in results])
        first = self._partitions
        self._partitions += len(results)
        for index, result in enumerate(results, first):
            _add_detail(header, index, result)
            if result.nbytes:
                if self._references:
                    self._add_reference(index, result.records)
                result.release()
        self._add_payload(work.call_id, records)

    def _add_reference(self, index: int, found: Any) -> None:
        self._header.references.add(
            index=index,
            path=found.path,
            log_dir=found.log_dir,
            inode=found.inode,
            position=found.position,
        )

    def _add_payload(self, call_id: int, records: list[bytes]) -> None:
        """Closes the answer, over as many messages as its bytes need."""
        body = memoryview(records[0] if len(records) == 1 else b"".join(records))
        while True:
            piece = body[: PIECE_BYTES - self._nbytes]
            body = body[len(piece) :]
            self._payload.append(piece)
            self._nbytes += len(piece)
            self._header.payload_bytes.append(len(piece))
            self._header.done.append(not body)
            if self._nbytes >= PIECE_BYTES:
                self._end_message()
            if not body:
                return
            self._header.call_id.append(call_id)
            self._header.call_partitions.append(0)
            self._header.throttle_ms.append(0)

    def _end_message(self) -> None:
        self._messages.append(frame(self._header.SerializeToString(), self._payload, self._nbytes))
        self._new_message()

    def take(self) -> list[bytes]:
        """All messages so far."""
        if self._header.call_id:
            self._end_message()
        messages, self._messages = self._messages, []
        return messages


def _read_ranges(results: list[FetchedPartition]) -> list[bytes]:
    """The bytes of all results; one that cannot be read becomes KAFKA_STORAGE_ERROR."""
    found = []
    for result in results:
        if result.nbytes:
            try:
                found.append(_read_range(result.records))
            except OSError:
                # Its log finds out by itself, at the next append or read of an index.
                result.release()
                result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return found


def _read_range(records: Any) -> bytes:
    data = os.pread(records.fd, records.length, records.position)
    if len(data) != records.length:
        raise OSError(f"{len(data)} of {records.length} bytes at {records.position}")
    return data


def _add_detail(header: pb.FetchResponse, index: int, result: FetchedPartition) -> None:
    aborted = result.aborted_transactions
    if not aborted and result.diverging_epoch < 0 and result.leader_epoch < 0:
        return
    header.details.add(
        index=index,
        aborted_transactions=[
            pb.AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted or ()
        ],
        diverging_epoch=result.diverging_epoch,
        diverging_end_offset=result.diverging_end_offset,
        leader=result.leader,
        leader_epoch=result.leader_epoch,
    )


class Answer:
    """One answer, or a piece of one, as it came in a message."""

    __slots__ = ("call_id", "done", "payload", "references", "results", "throttle_ms")

    def __init__(
        self,
        call_id: int,
        results: list[FetchedPartition],
        payload: memoryview,
        done: bool,
        throttle_ms: int,
    ) -> None:
        self.call_id = call_id
        self.results = results
        """Records still to be filled in; empty in the pieces after the first."""
        self.payload = payload
        self.done = done
        self.throttle_ms = throttle_ms
        self.references: list[tuple[FetchedPartition, pb.SegmentReference]] = []

    def fill(self, payload: memoryview, isolation_level: int) -> list[FetchedPartition]:
        """The results with their bytes, once all of the payload is here.

        Raises HopFramingError if it is not what the results promise.
        """
        promised = 0 if self.references else sum(r.nbytes for r in self.results)
        if len(payload) != promised:
            raise HopFramingError(f"{len(payload)} bytes of records, {promised} were promised")
        position = 0
        for result in self.results:
            if isolation_level == READ_COMMITTED and result.aborted_transactions is None:
                result.aborted_transactions = []
            if result.nbytes and not self.references:
                result.records = payload[position : position + result.nbytes]
                position += result.nbytes
        return self.results


def parse_response(message: bytes) -> list[Answer]:
    """The answers of one message. Raises HopFramingError."""
    head, payload = split(message)
    try:
        header = pb.FetchResponse.FromString(head)  # type: ignore[arg-type]  # Any buffer will do.
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
        answers = list(_answers(header, results, payload))
        for detail in header.details:
            _apply_detail(results[detail.index], detail)
        if header.references:
            _spread_references(header, results, answers)
    except (DecodeError, IndexError, ValueError) as error:
        raise HopFramingError(f"malformed FetchResponse: {error}") from error
    return answers


def _answers(
    header: pb.FetchResponse, results: list[FetchedPartition], payload: memoryview
) -> Iterable[Answer]:
    at = position = 0
    for call_id, count, throttle_ms, nbytes, done in zip(
        header.call_id,
        header.call_partitions,
        header.throttle_ms,
        header.payload_bytes,
        header.done,
        strict=True,
    ):
        yield Answer(
            call_id,
            results[at : at + count],
            payload[position : position + nbytes],
            done,
            throttle_ms,
        )
        at += count
        position += nbytes
    if at != len(results) or position != len(payload):
        raise ValueError(f"{at} of {len(results)} partitions, {position} of {len(payload)} bytes")


def _apply_detail(result: FetchedPartition, detail: pb.FetchPartitionDetail) -> None:
    result.diverging_epoch = detail.diverging_epoch
    result.diverging_end_offset = detail.diverging_end_offset
    result.leader = detail.leader
    result.leader_epoch = detail.leader_epoch
    if detail.aborted_transactions:
        result.aborted_transactions = [
            (a.producer_id, a.first_offset) for a in detail.aborted_transactions
        ]


def _spread_references(
    header: pb.FetchResponse, results: list[FetchedPartition], answers: list[Answer]
) -> None:
    """Gives each answer the references of its own partitions."""
    owners: list[Answer] = []
    for answer in answers:
        owners.extend([answer] * len(answer.results))
    wanted = [index for index, result in enumerate(results) if result.nbytes]
    if [reference.index for reference in header.references] != wanted:
        raise ValueError("references are not those of the partitions with records")
    for reference in header.references:
        owners[reference.index].references.append((results[reference.index], reference))
