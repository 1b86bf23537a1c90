"""Requests to the limit server, made with the project's codec, and a look at its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from highwater.kafka.messages import create_topics, fetch, list_offsets, produce
from highwater.kafka.records.builder import RecordBatchBuilder
from tests.support.wire import RawConnection, only

TIMESTAMP_MS = 1_700_000_000_000
EARLIEST, LATEST = -2, -1


def batch_of(values: Sequence[bytes]) -> bytes:
    """A record batch as a producer makes it, one record for each value."""
    builder = RecordBatchBuilder()
    for value in values:
        builder.append(key=None, value=value, timestamp_ms=TIMESTAMP_MS)
    return builder.build()


def without_stamps(batch: bytes) -> bytes:
    """The batch but for the fields that a broker writes: base offset and leader epoch."""
    return batch[8:12] + batch[16:]


def stamps(batch: bytes) -> tuple[int, int]:
    """Base offset and leader epoch."""
    return (
        int.from_bytes(batch[:8], "big", signed=True),
        int.from_bytes(batch[12:16], "big", signed=True),
    )


def segment_files(data_dir: Path, topic: str, partition: int = 0) -> dict[int, bytes]:
    """The contents of a partition's segments, by base offset."""
    files = sorted((data_dir / f"{topic}-{partition}").iterdir())
    return {int(file.stem): file.read_bytes() for file in files}


def create(connection: RawConnection, topic: str, version: int = 4, **options: Any) -> int:
    """Creates a topic of one partition, but for `options`; returns the error code."""
    configs = [
        create_topics.CreateTopicsRequestCreatableTopicConfig(name=name, value=value)
        for name, value in options.pop("configs", {}).items()
    ]
    wanted = {"num_partitions": 1, "replication_factor": 1, **options}
    asked = create_topics.CreateTopicsRequestCreatableTopic(name=topic, configs=configs, **wanted)
    response = connection.ask(create_topics.CreateTopicsRequest(topics=[asked]), version)
    code: int = only(response.topics).error_code
    return code


def produce_request(
    topic: str, batches: Sequence[tuple[int, bytes]], acks: int = 1
) -> produce.ProduceRequest:
    """A request with one batch for each (partition, batch)."""
    return produce.ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            produce.ProduceRequestTopicProduceData(
                name=topic,
                partition_data=[
                    produce.ProduceRequestPartitionProduceData(index=index, records=batch)
                    for index, batch in batches
                ],
            )
        ],
    )


def send_batch(
    connection: RawConnection, topic: str, batch: bytes, version: int = 9
) -> tuple[int, int]:
    """Produces one batch to partition 0; returns the error code and the base offset."""
    response = connection.ask(produce_request(topic, [(0, batch)]), version)
    found = only(only(response.responses).partition_responses)
    return found.error_code, found.base_offset


def fetch_request(
    topic: str,
    offset: int,
    *,
    partitions: Sequence[int] = (0,),
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    min_bytes: int = 1,
    max_wait_ms: int = 0,
) -> fetch.FetchRequest:
    """A request for the records from `offset` on, of each partition."""
    return fetch.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[
            fetch.FetchRequestFetchTopic(
                topic=topic,
                partitions=[
                    fetch.FetchRequestFetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=partition_max_bytes,
                    )
                    for partition in partitions
                ],
            )
        ],
    )


def read(
    connection: RawConnection, request: fetch.FetchRequest, version: int = 12
) -> fetch.FetchResponsePartitionData:
    """Sends a request for one partition and returns its part of the response."""
    found: fetch.FetchResponsePartitionData = only(
        only(connection.ask(request, version).responses).partitions
    )
    return found


def records_of(found: fetch.FetchResponsePartitionData) -> bytes:
    """The record batches of a part of a response; empty for none."""
    records = found.records or b""
    assert isinstance(records, bytes | bytearray | memoryview)
    return bytes(records)


def read_all(
    connection: RawConnection,
    topic: str,
    end: int,
    *,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
) -> list[bytes]:
    """The batches of partition 0 from the first one to the offset `end`, one fetch after another."""
    batches: list[bytes] = []
    offset = offset_at(connection, topic, EARLIEST)
    while offset < end:
        asked = fetch_request(
            topic, offset, max_bytes=max_bytes, partition_max_bytes=partition_max_bytes
        )
        found = records_of(read(connection, asked))
        assert found, f"nothing at {offset} of {end}"
        batches += split(found)
        offset = stamps(batches[-1])[0] + int.from_bytes(batches[-1][23:27], "big") + 1
    return batches


def split(records: bytes) -> list[bytes]:
    """The batches, each of which must be whole."""
    batches = []
    while records:
        size = 12 + int.from_bytes(records[8:12], "big")
        assert len(records) >= size, f"{len(records)} bytes of a batch of {size}"
        batches.append(records[:size])
        records = records[size:]
    return batches


def offset_at(connection: RawConnection, topic: str, timestamp: int, version: int = 5) -> int:
    """The first offset of partition 0, or the one behind its last."""
    request = list_offsets.ListOffsetsRequest(
        topics=[
            list_offsets.ListOffsetsRequestListOffsetsTopic(
                name=topic,
                partitions=[
                    list_offsets.ListOffsetsRequestListOffsetsPartition(timestamp=timestamp)
                ],
            )
        ]
    )
    found = only(only(connection.ask(request, version).topics).partitions)
    assert found.error_code == 0
    offset: int = found.offset
    return offset
