"""Encodes and decodes FetchRequest and FetchResponse, on both ends of the stream.

A fetch is a packed row, which costs a few `pack` and `unpack` calls; a submessage per fetch, or an
array per field, would cost more than the fetch itself.
"""

import os
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from struct import Struct
from typing import Final, cast

from google.protobuf.message import DecodeError

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.fetch import (
    BUFFERS,
    READ_COMMITTED,
    SMALL_RANGE,
    FetchedPartition,
    FetchPartition,
    FetchSet,
    FetchWork,
    FileRange,
    NamedRange,
    ReplyMemory,
)
from highwater.hop.framing import PLACEHOLDER, HopFramingError, Parts, frame, split
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.primitives import Buffer
from highwater.model.ids import NO_NODE, InstanceId, NodeId, TopicId
from highwater.rpc.ports import Message

PIECE_BYTES: Final = 1 << 20
"""Payload of one message (measured: 1 MiB costs least per byte)."""

# partition_service.proto describes the columns.
_CALL: Final = Struct("<QiIiiiB")
_ASKED: Final = Struct("<Iiiqii")
_SET: Final = Struct("<IQIB")
_ANEW: Final = 1
_MISSED: Final = 2
_ANSWER: Final = Struct("<QiiIB")
_RESULT: Final = Struct("<hqqqI")
_REFERENCE: Final = Struct("<IIQ")

_MALFORMED: Final = (DecodeError, IndexError, KeyError, ValueError, struct.error)


def encode_request(
    works: Sequence[FetchWork],
    cancelled: Sequence[int],
    references: bool,
    copied_bytes_max: int = 0,
    *,
    stream: object = None,
    ended_sets: Sequence[int] = (),
) -> bytes:
    """Encodes one message; every work has its `call_id`, and its set a `set_id`.

    `stream` stands for what the other end of this stream knows of fetch sets.
    """
    topics: dict[TopicId, int] = {}
    instances: dict[InstanceId, int] = {}
    calls: list[bytes] = []
    asked: list[bytes] = []
    sets: list[bytes] = []
    places: list[int] = []
    near: dict[tuple[NodeId, ...], int] = {(): 0}
    call_near: list[int] = []
    for work in works:
        call_near.append(near.setdefault(work.near, len(near)))
        partitions = work.partitions
        fetch_set = work.fetch_set
        if fetch_set is not None:
            told = fetch_set.changes(stream)
            flags = _ANEW * told.anew + _MISSED * told.missed
            sets.append(_SET.pack(len(calls), fetch_set.set_id, len(told.dropped), flags))
            places += told.places
            places += told.dropped
            partitions = [fetch_set.asked[place] for place in told.places]
        calls.append(
            _CALL.pack(
                work.call_id,
                len(partitions),
                instances.setdefault(work.instance, len(instances)),
                work.max_wait_ms,
                work.min_bytes,
                work.max_bytes,
                work.isolation_level,
            )
        )
        for topic_id, *others in partitions:
            asked.append(_ASKED.pack(topics.setdefault(topic_id, len(topics)), *others))
    return pb.FetchRequest(
        calls=b"".join(calls),
        partitions=b"".join(asked),
        instances=instances,
        topic_ids=topics,
        cancelled_call_ids=cancelled,
        accepts_references=references,
        copied_bytes_max=copied_bytes_max,
        sets=b"".join(sets),
        places=_pack_numbers(places),
        ended_sets=ended_sets,
        near=[pb.NearNodes(nodes=nodes) for nodes in near if nodes],
        call_near=_pack_numbers(call_near) if len(near) > 1 else b"",
    ).SerializeToString()


def _pack_numbers(places: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(places)}I", *places)


def _unpack_numbers(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // 4}I", packed)


def decode_request(message: Message) -> pb.FetchRequest:
    """Decodes a request; raises HopFramingError."""
    try:
        return pb.FetchRequest.FromString(message)  # type: ignore[arg-type]  # Any buffer will do.
    except DecodeError as error:
        raise HopFramingError(f"malformed FetchRequest: {error}") from None


def calls_in(request: pb.FetchRequest) -> int:
    """How many fetches a request begins; costs nothing, unlike `works_of`."""
    return len(request.calls) // _CALL.size


def works_of(
    request: pb.FetchRequest,
    done: Callable[[FetchWork], None],
    memory: ReplyMemory | None = None,
    known_sets: dict[int, FetchSet] | None = None,
) -> list[FetchWork]:
    """The fetches of a decoded request. Raises HopFramingError.

    Small records are read into `memory` if the peer takes them as bytes. `known_sets` are the
    stream's fetch sets by number, which the request may change.
    """
    copied_bytes_max = min(request.copied_bytes_max, SMALL_RANGE)
    if not copied_bytes_max:
        memory = None
    topic_ids = [TopicId(t) for t in request.topic_ids]
    instances = [InstanceId(i) for i in request.instances]
    works = []
    at = 0
    try:
        asked = [
            FetchPartition(topic_ids[topic], *others)
            for topic, *others in _ASKED.iter_unpack(request.partitions)
        ]
        for call_id, count, instance, wait, least, most, isolation in _CALL.iter_unpack(
            request.calls
        ):
            work = FetchWork(
                instance=instances[instance],
                partitions=asked[at : at + count],
                max_wait_ms=wait,
                min_bytes=least,
                max_bytes=most,
                isolation_level=isolation,
                done=done,
                memory=memory,
            )
            work.copied_bytes_max = copied_bytes_max
            work.call_id = call_id
            works.append(work)
            at += len(work.partitions)
            if len(work.partitions) != count:
                raise ValueError(f"call {call_id} asks for {count} partitions")
        if request.call_near:
            _set_near(request, works)
        if request.sets:
            _change_sets(request, works, {} if known_sets is None else known_sets)
    except _MALFORMED as error:
        raise HopFramingError(f"a fetch message's rows do not fit together: {error}") from error
    if at != len(asked):
        raise HopFramingError(f"{len(asked)} partitions for calls that ask for {at}")
    return works


def _set_near(request: pb.FetchRequest, works: Sequence[FetchWork]) -> None:
    """Gives the works the nodes near to their clients."""
    near = [(), *(tuple(NodeId(node) for node in one.nodes) for one in request.near)]
    for work, index in zip(works, _unpack_numbers(request.call_near), strict=True):
        work.near = near[index]


def _change_sets(
    request: pb.FetchRequest, works: Sequence[FetchWork], known_sets: dict[int, FetchSet]
) -> None:
    """Gives the works their sets, as they are asked for now."""
    places = iter(_unpack_numbers(request.places))
    for index, set_id, dropped, flags in _SET.iter_unpack(request.sets):
        work = works[index]
        if flags & _ANEW:
            fetch_set = known_sets.setdefault(set_id, FetchSet())
            fetch_set.restart()
        else:
            fetch_set = known_sets[set_id]
        fetch_set.taken = not flags & _MISSED
        changed = list(islice(places, len(work.partitions)))
        for place, asked in zip(changed, work.partitions, strict=True):
            fetch_set.update(place, asked)
        for place in islice(places, dropped):
            fetch_set.drop(place)
        work.partitions = []
        work.fetch_set = fetch_set
    if next(places, None) is not None:
        raise ValueError("more places than partitions")


class ResponseWriter:
    """Collects answered fetches into messages, and releases their ranges.

    Records that are bytes are sent as bytes, and long answers are cut into pieces. For records in
    files it names files and positions if there may be references, and the reader opens the files
    itself. Otherwise it reads them.
    """

    def __init__(self, *, references: bool) -> None:
        self._with_references = references
        self._messages: list[Parts] = []
        self._new_message()

    def _new_message(self) -> None:
        self._answers: list[bytes] = []
        self._results: list[bytes] = []
        self._places: list[int] = []
        self._references: list[bytes] = []
        self._files: dict[tuple[int, int], tuple[int, pb.SegmentFile]] = {}
        self._details: list[pb.FetchPartitionDetail] = []
        self._payload: list[Buffer] = []
        self._nbytes = 0

    def add(self, work: FetchWork) -> None:
        """Adds one answer."""
        results = work.results
        records: list[Buffer] = []
        index = len(self._results)
        if work.fetch_set is not None:
            self._places += [0] * (index - len(self._places))
            self._places += work.answered
        for result in results:
            nbytes = result.nbytes
            if nbytes:
                found = result.records
                if isinstance(found, BUFFERS):
                    records.append(found)
                elif self._with_references:
                    self._add_reference(index, cast("NamedRange", found))
                else:
                    try:
                        records.append(_read_range(found))
                    except OSError:
                        # The log notices the failed disk by itself, at the next append or index
                        # read.
                        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                        nbytes = 0
                result.release()
            self._results.append(
                _RESULT.pack(
                    result.error_code,
                    result.high_watermark,
                    result.last_stable_offset,
                    result.log_start_offset,
                    nbytes,
                )
            )
            if (
                result.aborted_transactions
                or result.diverging_epoch >= 0
                or result.leader_epoch >= 0
                or result.preferred_replica >= 0
            ):
                self._details.append(_detail(index, result))
            index += 1
        self._end_answer(work, records)

    def _add_reference(self, index: int, found: NamedRange) -> None:
        key = (found.log_dir, found.inode)
        known = self._files.get(key)
        if known is None:
            file = pb.SegmentFile(path=found.path, log_dir=found.log_dir, inode=found.inode)
            known = self._files[key] = (len(self._files), file)
        self._references.append(_REFERENCE.pack(index, known[0], found.position))

    def _end_answer(self, work: FetchWork, records: list[Buffer]) -> None:
        """Ends the answer, in as many messages as its bytes need."""
        count, throttle_ms = len(work.results), work.throttle_ms
        nbytes = 0
        for body in records:
            while len(body) > (room := PIECE_BYTES - self._nbytes):
                body = memoryview(body)  # noqa: PLW2901 - cut without a copy.
                if room:
                    self._payload.append(body[:room])
                    self._nbytes = PIECE_BYTES
                self._answers.append(
                    _ANSWER.pack(work.call_id, count, throttle_ms, nbytes + room, False)
                )
                self._end_message(0)
                body = body[room:]  # noqa: PLW2901 - as above.
                count = throttle_ms = nbytes = 0
            self._payload.append(body)
            self._nbytes += len(body)
            nbytes += len(body)
        self._answers.append(_ANSWER.pack(work.call_id, count, throttle_ms, nbytes, True))
        if self._nbytes >= PIECE_BYTES:
            self._end_message(0)

    def _end_message(self, begun_messages: int) -> None:
        if self._places:
            self._places += [0] * (len(self._results) - len(self._places))
        header = pb.FetchResponse(
            header_bytes=PLACEHOLDER,
            answers=b"".join(self._answers),
            partitions=b"".join(self._results),
            references=b"".join(self._references),
            files=[file for _, file in self._files.values()],
            details=self._details,
            begun_messages=begun_messages,
            places=_pack_numbers(self._places),
        )
        self._messages.append(frame(header.SerializeToString(), self._payload, self._nbytes))
        self._new_message()

    def take(self, begun_messages: int = 0) -> list[Parts]:
        """Returns all messages so far; the last one says how many requests were begun."""
        if self._answers or begun_messages:
            self._end_message(begun_messages)
        messages, self._messages = self._messages, []
        return messages


def _read_range(records: FileRange) -> bytes:
    data = os.pread(records.fd, records.length, records.position)
    if len(data) != records.length:
        raise OSError(f"{len(data)} of {records.length} bytes at {records.position}")
    return data


def _detail(index: int, result: FetchedPartition) -> pb.FetchPartitionDetail:
    return pb.FetchPartitionDetail(
        index=index,
        aborted_transactions=[
            pb.AbortedTransaction(producer_id=p, first_offset=o)
            for p, o in result.aborted_transactions or ()
        ],
        diverging_epoch=result.diverging_epoch,
        diverging_end_offset=result.diverging_end_offset,
        leader=result.leader,
        leader_epoch=result.leader_epoch,
        preferred_replica=result.preferred_replica - NO_NODE,
    )


class Answer:
    """One answer, or a piece of one, from a message."""

    __slots__ = (
        "call_id",
        "carried",
        "done",
        "payload",
        "places",
        "references",
        "results",
        "throttle_ms",
    )

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
        """Results without their records; empty in the pieces after the first."""
        self.payload = payload
        self.done = done
        self.throttle_ms = throttle_ms
        self.places: list[int] = []
        """The places of results in their fetch set, if they are of one."""
        self.references: list[tuple[FetchedPartition, pb.SegmentFile, int]] = []
        """Results with the files and positions of their records."""
        self.carried = results
        """The results whose records, if they have any, are in the payload."""

    def fill(self, payload: memoryview, isolation_level: int) -> list[FetchedPartition]:
        """Returns the results with their records, once the whole payload is here.

        Raises HopFramingError if the payload's size is not that of the records it carries.
        """
        carried = self.carried
        promised = sum([r.nbytes for r in carried])
        if len(payload) != promised:
            raise HopFramingError(f"{len(payload)} bytes of records, {promised} were promised")
        position = 0
        for result in carried:
            if result.nbytes:
                result.records = payload[position : position + result.nbytes]
                position += result.nbytes
        if isolation_level == READ_COMMITTED:
            for result in self.results:
                if result.aborted_transactions is None:
                    result.aborted_transactions = []
        return self.results


def parse_response(message: Message) -> tuple[list[Answer], int]:
    """The answers in one message, and how many requests the node has begun.

    Raises HopFramingError.
    """
    head, payload = split(message)
    try:
        header = pb.FetchResponse.FromString(head)  # type: ignore[arg-type]  # Any buffer will do.
        results = [
            FetchedPartition(error, hw, lso, start, b"", nbytes)
            for error, hw, lso, start, nbytes in _RESULT.iter_unpack(header.partitions)
        ]
        answers = list(_answers(header.answers, results, payload))
        for detail in header.details:
            _apply_detail(results[detail.index], detail)
        if header.references:
            _spread_references(header, answers)
        if header.places:
            _spread_places(header, answers)
    except _MALFORMED as error:
        raise HopFramingError(f"malformed FetchResponse: {error}") from error
    return answers, header.begun_messages


def _answers(rows: bytes, results: list[FetchedPartition], payload: memoryview) -> Iterable[Answer]:
    at = position = 0
    for call_id, count, throttle_ms, nbytes, done in _ANSWER.iter_unpack(rows):
        if count < 0:
            raise ValueError(f"{count} partitions")
        yield Answer(
            call_id,
            results[at : at + count],
            payload[position : position + nbytes],
            bool(done),
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
    result.preferred_replica = NodeId(detail.preferred_replica + NO_NODE)
    if detail.aborted_transactions:
        result.aborted_transactions = [
            (a.producer_id, a.first_offset) for a in detail.aborted_transactions
        ]


def _spread_places(header: pb.FetchResponse, answers: list[Answer]) -> None:
    places = _unpack_numbers(header.places)
    at = 0
    for answer in answers:
        answer.places = list(places[at : at + len(answer.results)])
        at += len(answer.results)
    if at != len(places):
        raise ValueError(f"{len(places)} places of {at} partitions")


def _spread_references(header: pb.FetchResponse, answers: list[Answer]) -> None:
    """Gives each answer its references: other records of its partitions are in the payload."""
    files = list(header.files)
    references = _REFERENCE.iter_unpack(header.references)
    index, file, position = next(references)
    at = 0
    for answer in answers:
        carried = []
        for result in answer.results:
            if at == index:
                if not result.nbytes:
                    raise ValueError("a reference of a partition without records")
                answer.references.append((result, files[file], position))
                index, file, position = next(references, (-1, 0, 0))
            else:
                carried.append(result)
            at += 1
        answer.carried = carried
    if index >= 0:
        raise ValueError("references are not those of the partitions with records")
