"""Fetch 0 to 3: record batches become message sets of format 0 (v0, v1) or 1 (v2, v3).

Only with the setting `old_message_formats`. As Kafka before 4.0 (`KafkaApis.handleFetchRequest`,
`RecordsUtil.downConvert`): v1 throttle time, v2 message format 1, v3 a limit for the whole answer.

- Headers are dropped, control batches left out, and aborted transactions are told like others.
- zstd is UNSUPPORTED_COMPRESSION_TYPE. What precedes such a batch is told first.
- KAFKA_STORAGE_ERROR and OFFSET_NOT_AVAILABLE, which these clients do not know, are
  NOT_LEADER_OR_FOLLOWER (`fetch_encoding.settle_refusal`).

Deviations
- A first batch larger than the limits is sent whole in v0 to v2, too; Kafka cuts it off there.
- Where there are only control batches, Kafka's answer makes old consumers give up, or has nothing
  and they ask for ever. Here the fetch goes on behind them.
- A batch that decompresses to more than 32 MiB, or an eighth of the memory budget, is
  UNSUPPORTED_VERSION.
"""

import os
from collections.abc import Sequence
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

from highwater.gateway.core.budget import MemoryBudget
from highwater.gateway.core.meters import FETCH
from highwater.gateway.core.reply import Reply
from highwater.gateway.core.turn import NS_PER_MS
from highwater.gateway.data_plane.conversions import (
    Conversion,
    Conversions,
    decompressed_bytes_max,
)
from highwater.gateway.data_plane.decoding import RequestDecoder
from highwater.gateway.data_plane.fetch_encoding import encode_parts
from highwater.gateway.data_plane.fetch_path import MIN_VERSION, FetchPath, WholeFetch
from highwater.gateway.routing.client import ClientSession
from highwater.hop.fetch import BUFFERS, FetchedPartition, FetchWork, FileRange
from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import fetch as codec
from highwater.kafka.primitives import Buffer
from highwater.kafka.records.down_conversion import DownConverted, to_message_set
from highwater.kafka.records.message_set import MAGIC_0, MAGIC_1

MAGIC_1_FROM: Final = 2
RESPONSE_SHARE: Final = 16
"""The part of the memory budget that the batches of one answer may take."""
ROUNDS_MAX: Final = 100
"""How often a fetch goes on behind control batches before it is answered without messages."""

_DECODER: Final = RequestDecoder("Fetch", range(MIN_VERSION), codec.decode_request)
_unpack_head = Struct(">hhi").unpack_from


class Asked(NamedTuple):
    """The batches of one partition that have to be converted."""

    place: int
    """In the request."""
    fetch_offset: int
    records: Buffer | FileRange
    nbytes: int


Outcomes = Sequence[DownConverted | OSError]
"""What became of each, in order."""


class OldFetchReply(WholeFetch):
    """A Fetch of version 0 to 3 in flight: rounds of works at nodes, each followed by a conversion."""

    __slots__ = ("_conversions", "_deadline_ms", "_decompressed_bytes_max", "_magic", "_rounds")

    def __init__(
        self,
        session: ClientSession,
        request_bytes: int,
        version: int,
        correlation_id: int,
        request: codec.FetchRequest,
        conversions: Conversions[Outcomes],
    ) -> None:
        super().__init__(session, request_bytes, version, correlation_id, request, None)
        self._conversions = conversions
        self._decompressed_bytes_max = decompressed_bytes_max(session.shared.budget)
        self._magic = MAGIC_1 if version >= MAGIC_1_FROM else MAGIC_0
        self._deadline_ms = self._now_ms() + max(0, request.max_wait_ms)
        self._rounds = 0

    def finish(self) -> None:
        """Converts the results so far, and replies or goes on."""
        self._done = True
        if self._missing:
            for link, work, _ in self.works:
                if not work.results:
                    link.cancel_fetch(work)
            self._missing = 0
        asked = self._to_convert()
        if not asked:
            super().finish()
            return
        self._conversions.run(
            Conversion(
                2 * (sum(each.nbytes for each in asked) + self._decompressed_bytes_max),
                partial(_convert, asked, self._magic, self._decompressed_bytes_max),
                partial(self._converted, asked),
                self._broken,
            )
        )

    def _to_convert(self) -> list[Asked]:
        """The batches of this round."""
        asked = []
        for _, work, places in self.works:
            for place, partition in zip(places, work.partitions, strict=True):
                result = self._results.get(place)
                if result is not None and result.nbytes:
                    asked.append(
                        Asked(place, partition.fetch_offset, result.records, result.nbytes)
                    )
        return asked

    def _converted(self, asked: list[Asked], outcomes: Outcomes) -> None:
        """Takes the messages, and goes on where there are batches without any."""
        behind: dict[int, int] = {}
        for each, outcome in zip(asked, outcomes, strict=True):
            result = self._results[each.place]
            result.release()
            if isinstance(outcome, OSError):
                self._results[each.place] = FetchedPartition(ErrorCode.KAFKA_STORAGE_ERROR)
            elif outcome.error:
                self._results[each.place] = FetchedPartition(outcome.error)
            elif outcome.messages:
                result.records = outcome.messages
                result.nbytes = len(outcome.messages)
            elif outcome.next_offset > each.fetch_offset:
                behind[each.place] = outcome.next_offset
        throttled = any(work.throttle_ms for _, work, _ in self.works)
        if behind and not throttled and self._rounds < ROUNDS_MAX and not self.session.closed:
            self._rounds += 1
            self._go_on(behind)
        else:
            super().finish()

    def _go_on(self, behind: dict[int, int]) -> None:
        """Fetches again from these offsets, by place; waits only if there is nothing to tell."""
        found = any(r.nbytes or r.error_code for r in self._results.values())
        wait_ms = 0 if found else max(0, self._deadline_ms - self._now_ms())
        earlier, self.works = self.works, []
        self._wait_ms = 0
        for link, work, places in earlier:
            again = [n for n, place in enumerate(places) if place in behind]
            if not again:
                continue
            next_work = FetchWork(
                instance=work.instance,
                partitions=[
                    work.partitions[n]._replace(fetch_offset=behind[places[n]]) for n in again
                ],
                max_wait_ms=wait_ms,
                min_bytes=work.min_bytes,
                max_bytes=work.max_bytes,
                isolation_level=work.isolation_level,
                done=self.work_done,
                memory=work.memory,
            )
            self.start(link, next_work, [places[n] for n in again])
        self._done = self._found = False
        self.send()

    def _broken(self, error: Exception) -> None:
        self.failed(self._results.values(), error)

    def _now_ms(self) -> int:
        return self.session.shared.turn.clock_ns() // NS_PER_MS


class OldFetchPath:
    """Serves versions 0 to 3 itself, and leaves all others to a `FetchPath`."""

    __slots__ = ("_conversions", "_max_bytes", "_path")

    def __init__(self, path: FetchPath, budget: MemoryBudget) -> None:
        self._path = path
        self._conversions: Conversions[Outcomes] = Conversions("old-fetch", budget)
        self._max_bytes = budget.limit // RESPONSE_SHARE

    def start(self, session: ClientSession, frame: bytearray) -> None:
        """Starts a request, which is already counted as outstanding."""
        _, version, correlation_id = _unpack_head(frame)
        if 0 <= version < MIN_VERSION:
            self._start_old(session, frame, version, correlation_id)
        else:
            self._path.start(session, frame)

    def hold(self, session: ClientSession, frame: bytearray, throttle_ms: int) -> None:
        """Answers a request without records, as its client is over its quota, and mutes the client."""
        _, version, correlation_id = _unpack_head(frame)
        if not 0 <= version < MIN_VERSION:
            self._path.hold(session, frame, throttle_ms)
            return
        request = _DECODER.decode(session, frame, version)
        if request is None:
            return
        reply = Reply(FETCH, len(frame), session.arrived_ns)
        session.expect(reply)
        session.complete_fetch(reply, encode_parts(version, correlation_id, [], throttle_ms))
        session.mute(throttle_ms)

    def close(self) -> None:
        """Ends the conversions."""
        self._conversions.close()

    def _start_old(
        self, session: ClientSession, frame: bytearray, version: int, correlation_id: int
    ) -> None:
        request = _DECODER.decode(session, frame, version)
        if request is None:
            return
        request.max_bytes = min(request.max_bytes, self._max_bytes)
        reply = OldFetchReply(
            session, len(frame), version, correlation_id, request, self._conversions
        )
        session.expect(reply)
        self._path.route(session, request, reply)
        if reply.works:
            reply.send()
        else:
            reply.finish()


def _convert(asked: list[Asked], magic: int, decompressed_size_max: int) -> Outcomes:
    """Reads and converts; runs on the thread."""
    outcomes: list[DownConverted | OSError] = []
    for each in asked:
        try:
            batches = _read(each.records)
        except OSError as error:
            outcomes.append(error)
            continue
        outcomes.append(
            to_message_set(
                batches,
                magic,
                fetch_offset=each.fetch_offset,
                size_max=each.nbytes,
                decompressed_size_max=decompressed_size_max,
            )
        )
    return outcomes


def _read(records: Buffer | FileRange) -> Buffer:
    if isinstance(records, BUFFERS):
        return records
    return os.pread(records.fd, records.length, records.position)
