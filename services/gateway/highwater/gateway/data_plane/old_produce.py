"""Produce 0 to 2, with message formats 0 and 1: each set becomes a record batch before the hop.

Only with the setting `old_message_formats`. As Kafka before 4.0 (`LogValidator`, `ProduceRequest`), a
set of either format is taken in each of these versions, and so is one batch of format 2, which
passes as it is. Nodes never see the old formats.

- v1 throttle time, v2 time of the append.
- The time for which a request waits for its results includes the conversion.
- KAFKA_STORAGE_ERROR, which clients before version 4 do not know, is NOT_LEADER_OR_FOLLOWER, as in
  Kafka (`produce_encoding.told`).

Deviations
- A compressed set that decompresses to more than 32 MiB, or an eighth of the memory budget, is
  MESSAGE_TOO_LARGE. One without a whole message is INVALID_RECORD; Kafka takes it and stores nothing.
"""

from collections.abc import Sequence
from functools import partial
from struct import Struct
from typing import Final

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.data_plane.conversions import (
    Conversion,
    Conversions,
    decompressed_bytes_max,
)
from highwater.gateway.data_plane.decoding import RequestDecoder
from highwater.gateway.data_plane.denials import produce_denials
from highwater.gateway.data_plane.produce_path import (
    MIN_VERSION,
    ProducePath,
    bounded_timeout_ms,
    partitions_of,
)
from highwater.gateway.data_plane.produce_replies import ManyPartitionsReply
from highwater.gateway.routing.client import ClientSession
from highwater.hop.append import Batch, Failure
from highwater.kafka.messages import produce as codec
from highwater.kafka.records.batch import COMPRESSION_MASK, MAGIC
from highwater.kafka.records.message_set import SET_ATTRIBUTES_AT, SET_MAGIC_AT
from highwater.kafka.records.up_conversion import to_record_batch
from highwater.kafka.records.validation import BatchProblem
from highwater.model.authorization import Authorizer

_DECODER: Final = RequestDecoder("Produce", range(MIN_VERSION), codec.decode_request)
_unpack_head = Struct(">hhi").unpack_from

Outcomes = Sequence[bytes | BatchProblem]
"""What became of the sets of a request, in their order."""


class OldProducePath:
    """Serves versions 0 to 2 itself, and leaves all others to a `ProducePath`."""

    __slots__ = ("_authorizer", "_conversions", "_decompressed_bytes_max", "_path")

    def __init__(self, path: ProducePath, authorizer: Authorizer, budget: MemoryBudget) -> None:
        self._path = path
        self._authorizer = authorizer
        self._conversions: Conversions[Outcomes] = Conversions("old-produce", budget)
        self._decompressed_bytes_max = decompressed_bytes_max(budget)

    def start(self, session: ClientSession, frame: bytearray) -> None:
        """Starts a request, which is already counted as outstanding."""
        _, version, correlation_id = _unpack_head(frame)
        if 0 <= version < MIN_VERSION:
            self._start_old(session, frame, version, correlation_id)
        else:
            self._path.start(session, frame)

    def close(self) -> None:
        """Ends the conversions."""
        self._conversions.close()

    def _start_old(
        self, session: ClientSession, frame: bytearray, version: int, correlation_id: int
    ) -> None:
        request = _DECODER.decode(session, frame, version)
        if request is None:
            return
        reply = ManyPartitionsReply(
            session, len(frame), version, correlation_id, request.acks, partitions_of(request)
        )
        if not reply.begin():
            return
        deadline_ms = session.shared.now_ms + bounded_timeout_ms(request.timeout_ms)
        sets: list[tuple[int, Batch]] = []
        nbytes = index = 0
        for topic in request.topic_data:
            for data in topic.partition_data:
                records = data.records
                if _is_old(records):
                    assert isinstance(records, Batch)
                    sets.append((index, records))
                    nbytes += self._working_bytes(records)
                index += 1
        self._conversions.run(
            Conversion(
                nbytes,
                partial(_convert, [records for _, records in sets], self._decompressed_bytes_max),
                partial(
                    self._converted, version, request, reply, deadline_ms, [n for n, _ in sets]
                ),
                reply.append_broken,
            )
        )

    def _working_bytes(self, records: Batch) -> int:
        """What the conversion of a set may take: its records, and those of the batch beside them."""
        if records[SET_ATTRIBUTES_AT] & COMPRESSION_MASK:
            return 2 * self._decompressed_bytes_max
        return 2 * len(records)

    def _converted(
        self,
        version: int,
        request: codec.ProduceRequest,
        reply: ManyPartitionsReply,
        deadline_ms: int,
        indexes: list[int],
        outcomes: Outcomes,
    ) -> None:
        """Sends the batches to their leaders. The frame is not needed any more, so its place in
        the budget is theirs.
        """
        places = [data for topic in request.topic_data for data in topic.partition_data]
        refused: dict[int, Failure] = {}
        for index, outcome in zip(indexes, outcomes, strict=True):
            if isinstance(outcome, BatchProblem):
                refused[index] = Failure(
                    outcome.error, outcome.message, record_errors=outcome.record_errors
                )
            else:
                places[index].records = bytearray(outcome)
        # The batches have a transactional id where a message has other bytes: not before.
        denials = produce_denials(
            self._authorizer, reply.session.client, request, transactional=False
        )
        self._path.append_all(version, request, reply, deadline_ms, denials, refused)


def _is_old(records: object) -> bool:
    """True if a partition's records begin with a whole header of an old format."""
    return (
        isinstance(records, Batch)
        and len(records) > SET_ATTRIBUTES_AT
        and records[SET_MAGIC_AT] < MAGIC
    )


def _convert(sets: list[Batch], decompressed_size_max: int) -> Outcomes:
    return [to_record_batch(one, decompressed_size_max) for one in sets]
