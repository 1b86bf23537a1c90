"""A broker with transactions that checks every frame of `loadgen --mode transact`; it stores nothing."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from crc32c import crc32c

from highwater.kafka.error_codes import ErrorCode
from highwater.kafka.messages import (
    api_versions,
    end_txn,
    find_coordinator,
    init_producer_id,
    produce,
)
from highwater.kafka.records.batch import RecordBatchView
from highwater.kafka.registry import ApiCodec, request_codec
from tests.bench.frame_server import FrameServer

_VERSIONS = {
    api_versions.API_KEY: 3,
    find_coordinator.API_KEY: 2,
    init_producer_id.API_KEY: 5,
    produce.API_KEY: 12,
    end_txn.API_KEY: 5,
}
_CLIENT_ID = b"loadgen"
_FIRST_PRODUCER_ID = 7_000
_LAST_EPOCH = 2


@dataclass(slots=True)
class Producer:
    """What the broker knows of a transactional id, and the transaction that is open."""

    producer_id: int
    epoch: int = 0
    requests: int = 0
    """Produce requests of the open transaction, refused ones, too."""
    stored: dict[int, list[tuple[int, int, int]]] = field(default_factory=lambda: defaultdict(list))
    """By partition: base sequence, records and size of each batch."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction that was ended, with its batches by partition (see `Producer.stored`)."""

    transactional_id: str
    committed: bool
    batches: dict[int, list[tuple[int, int, int]]]

    @property
    def records(self) -> int:
        """In all partitions."""
        return sum(records for each in self.batches.values() for _, records, _ in each)


@dataclass(slots=True)
class FakeCoordinator:
    """One broker with everything, of transaction.version `level`.

    `refuse(producer)` has the error code of a whole Produce request, `refuse_end` of an EndTxn; both
    see the producer, and `end_requests` counts the latter. A producer id serves three epochs.
    """

    level: int = 2
    refuse: Callable[[Producer], int] = lambda _producer: 0
    refuse_end: Callable[[Producer], int] = lambda _producer: 0
    producers: dict[str, Producer] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    end_requests: int = 0
    problems: list[str] = field(default_factory=list)
    _server: FrameServer = field(init=False)

    def __post_init__(self) -> None:
        self._server = FrameServer(self._answer)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.__exit__(*exception)

    @property
    def address(self) -> str:
        return self._server.address

    def _answer(self, frame: bytes, connection: int) -> bytes:
        del connection
        key, version, correlation, size = struct.unpack_from(">hhih", frame)
        body_at = 10 + size
        if frame[10:body_at] != _CLIENT_ID or _VERSIONS.get(key) != version:
            self.problems.append(f"API {key} v{version} of {frame[10:body_at]!r}")
        codec = request_codec(key)
        flexible = version >= codec.flexible_from
        request = codec.decode_request(frame, body_at + flexible, version)
        if codec.encode_request(request, version) != frame[body_at + flexible :]:
            self.problems.append(f"bytes behind the request of API {key}")
        answers: dict[int, Callable[[Any], Any]] = {
            api_versions.API_KEY: self._api_versions,
            find_coordinator.API_KEY: self._find,
            init_producer_id.API_KEY: self._init,
            produce.API_KEY: self._produce,
            end_txn.API_KEY: self._end,
        }
        return _framed(codec, version, correlation, answers[key](request))

    def _api_versions(self, _request: api_versions.ApiVersionsRequest) -> Any:
        return api_versions.ApiVersionsResponse(
            api_keys=[
                api_versions.ApiVersionsResponseApiVersion(
                    api_key=key, min_version=0, max_version=version
                )
                for key, version in _VERSIONS.items()
            ],
            finalized_features_epoch=1,
            finalized_features=[
                api_versions.ApiVersionsResponseFinalizedFeatureKey(
                    name=name, max_version_level=level, min_version_level=level
                )
                for name, level in (("metadata.version", 29), ("transaction.version", self.level))
            ],
        )

    def _find(self, request: find_coordinator.FindCoordinatorRequest) -> Any:
        if request.key_type != 1:
            self.problems.append(f"FindCoordinator of type {request.key_type}")
        host, port = self.address.split(":")
        return find_coordinator.FindCoordinatorResponse(node_id=5, host=host, port=int(port))

    def _init(self, request: init_producer_id.InitProducerIdRequest) -> Any:
        name = request.transactional_id or ""
        if not name or request.producer_id != -1:
            self.problems.append(f"InitProducerId of {name!r}, {request.producer_id}")
        known = self.producers[name] = Producer(_FIRST_PRODUCER_ID + len(self.producers))
        return init_producer_id.InitProducerIdResponse(
            producer_id=known.producer_id, producer_epoch=known.epoch
        )

    def _produce(self, request: produce.ProduceRequest) -> Any:
        producer = self.producers[request.transactional_id or ""]
        if request.acks != -1:
            self.problems.append(f"acks {request.acks}")
        producer.requests += 1
        code = self.refuse(producer)
        (topic,) = request.topic_data
        for partition in topic.partition_data:
            assert isinstance(partition.records, bytes | bytearray | memoryview)
            records = bytes(partition.records)
            self._check(records, producer)
            if not code:
                self._store(records, partition.index, producer)
        return produce.ProduceResponse(
            responses=[
                produce.ProduceResponseTopicProduceResponse(
                    name=topic.name,
                    partition_responses=[
                        produce.ProduceResponsePartitionProduceResponse(
                            index=partition.index,
                            error_code=code,
                            base_offset=0,
                            log_append_time_ms=-1,
                            log_start_offset=0,
                        )
                        for partition in topic.partition_data
                    ],
                )
            ]
        )

    def _check(self, batch: bytes, producer: Producer) -> None:
        view = RecordBatchView(batch, 0, len(batch))
        if int.from_bytes(batch[17:21], "big") != crc32c(batch[21:]) or view.size != len(batch):
            self.problems.append("a batch with another CRC or size")
        attributes = int.from_bytes(batch[21:23], "big")
        epoch = int.from_bytes(batch[51:53], "big")
        if (attributes, view.producer_id, epoch) != (0x10, producer.producer_id, producer.epoch):
            self.problems.append(
                f"attributes {attributes}, producer {view.producer_id}, epoch {epoch}"
            )

    def _store(self, batch: bytes, partition: int, producer: Producer) -> None:
        count = int.from_bytes(batch[57:61], "big")
        sequence = int.from_bytes(batch[53:57], "big")
        before = producer.stored[partition]
        following = before[-1][0] + before[-1][1] if before else 0
        if sequence != following:
            self.problems.append(f"sequence {sequence} in partition {partition}, not {following}")
        before.append((sequence, count, len(batch)))

    def _end(self, request: end_txn.EndTxnRequest) -> Any:
        producer = self.producers[request.transactional_id]
        self.end_requests += 1
        if (request.producer_id, request.producer_epoch) != (producer.producer_id, producer.epoch):
            self.problems.append(f"EndTxn of {request.producer_id}, {request.producer_epoch}")
        code = self.refuse_end(producer)
        if code:
            return end_txn.EndTxnResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        self.ended.append(Ended(request.transactional_id, request.committed, dict(producer.stored)))
        producer.stored.clear()
        producer.requests = 0
        if producer.epoch == _LAST_EPOCH:
            producer.producer_id, producer.epoch = producer.producer_id + 100, 0
        else:
            producer.epoch += 1
        return end_txn.EndTxnResponse(
            error_code=ErrorCode.NONE,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
        )


def _framed(codec: ApiCodec, version: int, correlation: int, response: Any) -> bytes:
    # The header of ApiVersions has no tags in any version (KIP-511).
    tagged = version >= codec.flexible_from and codec.api_key != api_versions.API_KEY
    body = bytes(tagged) + codec.encode_response(response, version)
    return struct.pack(">ii", 4 + len(body), correlation) + body
