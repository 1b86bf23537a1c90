"""A broker that checks every Produce v9 frame, and answers Metadata; it stores nothing."""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from crc32c import crc32c

from highwater.kafka.messages import metadata
from highwater.kafka.records.batch import RecordBatchView
from highwater.kafka.registry import request_codec
from tests.bench.frame_server import FrameServer

_CLIENT_ID = b"loadgen"
METADATA_VERSION = 4


@dataclass(frozen=True, slots=True)
class Produced:
    """One batch from the wire."""

    connection: int
    partition: int
    producer_id: int
    base_sequence: int
    records: int
    size: int
    acks: int


@dataclass(slots=True)
class FakeBroker:
    """Answers Produce v9 with `error_of(partition)`; correlation ids move by `correlation_shift`.

    `metadata` is the body of its answer to Metadata v4; see `metadata_of`. For `tls` and `receive_bytes`
    see FrameServer.
    """

    error_of: Callable[[int], int] = lambda _partition: 0
    correlation_shift: int = 0
    metadata: bytes = b""
    tls: ssl.SSLContext | None = None
    receive_bytes: int = 0
    produced: list[Produced] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _server: FrameServer = field(init=False)

    def __post_init__(self) -> None:
        self._server = FrameServer(self._answer, tls=self.tls, receive_bytes=self.receive_bytes)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.__exit__(*exception)

    @property
    def address(self) -> str:
        return self._server.address

    def _answer(self, frame: bytes, connection: int) -> bytes:
        key, version, correlation = struct.unpack_from(">hhi", frame)
        if (key, version) == (metadata.API_KEY, METADATA_VERSION):
            return struct.pack(">ii", 4 + len(self.metadata), correlation) + self.metadata
        header = struct.pack(">hhih", key, version, correlation, len(_CLIENT_ID)) + _CLIENT_ID
        if (key, version) != (0, 9) or not frame.startswith(header + b"\x00\x00"):
            self.problems.append(f"unexpected header {frame[:24]!r}")
        at = len(header) + 2  # no tags, no transactional id
        acks = int.from_bytes(frame[at : at + 2], "big", signed=True)
        at += 2 + 4  # and a timeout
        topics, at = _uvarint(frame, at)
        name_size, at = _uvarint(frame, at)
        name = frame[at : at + name_size - 1]
        count, at = _uvarint(frame, at + name_size - 1)
        answer = bytearray(struct.pack(">i", correlation + self.correlation_shift))
        answer += b"\x00" + bytes([topics, name_size]) + name + bytes([count])
        for _ in range(count - 1):
            partition = int.from_bytes(frame[at : at + 4], "big")
            size, at = _uvarint(frame, at + 4)
            self._note(frame[at : at + size - 1], connection, partition, acks)
            at += size  # The length is `size - 1`; the last byte is the partition's empty tags.
            answer += struct.pack(">ihqqq", partition, self.error_of(partition), 0, -1, 0)
            answer += b"\x01\x00\x00"  # no record errors, no message, no tags
        if frame[at:] != b"\x00\x00":
            self.problems.append(f"{len(frame) - at} bytes behind the last partition")
        answer += b"\x00" + struct.pack(">i", 0) + b"\x00"
        return len(answer).to_bytes(4, "big") + bytes(answer)

    def _note(self, batch: bytes, connection: int, partition: int, acks: int) -> None:
        stored_crc = int.from_bytes(batch[17:21], "big")
        if stored_crc != crc32c(batch[21:]):
            self.problems.append(f"wrong CRC in partition {partition}")
        view = RecordBatchView(batch, 0, len(batch))
        if view.size != len(batch):
            self.problems.append(f"batch of {len(batch)} bytes says {view.size}")
        self.produced.append(
            Produced(
                connection=connection,
                partition=partition,
                producer_id=view.producer_id,
                base_sequence=int.from_bytes(batch[53:57], "big", signed=True),
                records=view.record_count,
                size=len(batch),
                acks=acks,
            )
        )


def metadata_of(topic: str, brokers: Sequence[FakeBroker], leaders: Sequence[int]) -> bytes:
    """Metadata v4 of one topic: `leaders` has an index into `brokers` for each partition."""
    nodes = range(len(brokers))
    response = metadata.MetadataResponse(
        brokers=[
            metadata.MetadataResponseMetadataResponseBroker(
                node_id=node, host="127.0.0.1", port=int(brokers[node].address.split(":")[1])
            )
            for node in nodes
        ],
        topics=[
            metadata.MetadataResponseMetadataResponseTopic(
                name=topic,
                partitions=[
                    metadata.MetadataResponseMetadataResponsePartition(
                        partition_index=partition,
                        leader_id=leader,
                        replica_nodes=list(nodes),
                        isr_nodes=list(nodes),
                    )
                    for partition, leader in enumerate(leaders)
                ],
            )
        ],
    )
    return bytes(request_codec(metadata.API_KEY).encode_response(response, METADATA_VERSION))


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
