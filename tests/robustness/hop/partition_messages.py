"""Messages of the partition service that its peers would never send, each made by chance.

Every field of every request gets values that such a field may have on the wire: those that a peer
would send, the ends of its range, and ones that refer to nothing. Rows that are packed into bytes get
whole rows, or rows that are cut. Then bytes may be changed, as if a sender had a bug.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from highwater.api.partition.v1 import partition_service_pb2 as pb
from highwater.hop.framing import PLACEHOLDER, frame, joined
from highwater.kafka.records.batch import PRODUCER_ID_AT
from tests.support.log_batches import make_batch

STREAMS: dict[str, type[Message]] = {
    "Append": pb.AppendRequest,
    "Fetch": pb.FetchRequest,
    "Coordinate": pb.CoordinateRequest,
    "Replicate": pb.ReplicateRequest,
}
UNARY: dict[str, type[Message]] = {
    "ReadRange": pb.ReadRangeRequest,
    "ListOffsets": pb.ListOffsetsRequest,
    "OffsetsForLeaderEpoch": pb.OffsetsForLeaderEpochRequest,
    "DescribeProducers": pb.DescribeProducersRequest,
    "DeleteRecords": pb.DeleteRecordsRequest,
    "WriteTxnMarkers": pb.WriteTxnMarkersRequest,
    "CoordinateOne": pb.CoordinatorCall,
    "DescribeLogDirs": pb.DescribeLogDirsRequest,
    "AlterLogDirs": pb.AlterLogDirsRequest,
    "DescribeLoggers": pb.DescribeLoggersRequest,
    "AlterLoggers": pb.AlterLoggersRequest,
}
_ROWS: dict[tuple[str, str], tuple[int, ...]] = {
    ("FetchRequest", "calls"): (8, 4, 4, 4, 4, 4, 1),
    ("FetchRequest", "partitions"): (4, 4, 4, 8, 4, 4),
    ("FetchRequest", "sets"): (4, 8, 4, 1),
    ("FetchRequest", "places"): (4,),
    ("FetchRequest", "call_near"): (4,),
    ("ReplicateRequest", "partitions"): (4, 4, 4, 8, 4),
    ("ReplicateRequest", "forgotten"): (4, 4),
    ("ReplicateRequest", "bytes_only"): (4, 4),
    ("ReplicateRequest", "log_starts"): (8,),
}
"""The widths of the columns of packed rows (partition_service.proto)."""
_SMALL = (0, 0, 0, 1, 1, 2, 3)
_WORDS = ("", "a", "no-such", "x" * 300, "ä\0\n", "default", "INFO", "/etc/passwd", "../..")

_RANGES: dict[int, tuple[int, int]] = {
    FieldDescriptor.TYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_SINT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.TYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_SINT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.TYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.TYPE_FIXED32: (0, (1 << 32) - 1),
    FieldDescriptor.TYPE_UINT64: (0, (1 << 64) - 1),
}


class Hostile:
    """Makes messages; `topics` are those that the node has and that may be harmed."""

    def __init__(self, chance: random.Random, topics: list[bytes], epoch: int) -> None:
        self._chance = chance
        self._topics = topics
        self._epoch = epoch

    def message(self, method: str) -> bytes:
        """One request of a method, or what is no request at all."""
        chance = self._chance
        roll = chance.random()
        if roll < 0.05:
            return chance.randbytes(chance.choice((0, 1, 4, 5, 40, 3_000)))
        made = self._append() if method == "Append" else self._filled(method)
        if roll < 0.35:
            return self._damaged(made)
        return made

    def _filled(self, method: str) -> bytes:
        kind = {**STREAMS, **UNARY}[method]
        made = kind()
        self._fill(made)
        return made.SerializeToString()

    # ---- fields ----

    def _fill(self, made: Message, depth: int = 0) -> None:
        chance = self._chance
        for field in made.DESCRIPTOR.fields:
            if chance.random() < 0.15:
                continue  # As an older or newer peer that does not know it.
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                self._fill_messages(made, field, depth)
            elif field.is_repeated:
                count = chance.choice((0, 1, 1, 2, 3, 20))
                values = [self._value(made.DESCRIPTOR.name, field) for _ in range(count)]
                getattr(made, field.name).extend(values)
            else:
                setattr(made, field.name, self._value(made.DESCRIPTOR.name, field))

    def _fill_messages(self, made: Message, field: Any, depth: int) -> None:
        if depth > 3:
            return
        if field.is_repeated:
            for _ in range(self._chance.choice((0, 1, 1, 2, 5))):
                self._fill(getattr(made, field.name).add(), depth + 1)
        else:
            self._fill(getattr(made, field.name), depth + 1)

    def _value(self, message: str, field: Any) -> Any:
        chance, name = self._chance, field.name
        if field.type == FieldDescriptor.TYPE_BOOL:
            return chance.random() < 0.5
        if field.type == FieldDescriptor.TYPE_STRING:
            return "" if name.startswith("instance") else chance.choice(_WORDS)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self._bytes(message, name)
        low, high = _RANGES[field.type]
        return self._number(name, low, high)

    def _number(self, name: str, low: int, high: int) -> int:
        chance = self._chance
        if "epoch" in name and chance.random() < 0.7:
            return self._epoch
        roll = chance.random()
        if roll < 0.75:
            return chance.choice(_SMALL)
        if roll < 0.95:
            return chance.choice((low, high, high // 2, max(low, -1), 255, 65_536 % (high + 1)))
        return chance.randint(low, high)

    def _bytes(self, message: str, name: str) -> bytes:
        chance = self._chance
        widths = _ROWS.get((message, name))
        if widths is not None:
            rows = [self._row(widths) for _ in range(chance.choice((0, 1, 1, 2, 3, 8)))]
            packed = b"".join(rows)
            return packed if chance.random() < 0.9 else packed[: chance.randint(0, len(packed))]
        if name.startswith("topic_id"):
            odd = (b"", b"x", chance.randbytes(16), b"y" * 300)
            return chance.choice((*self._topics, *self._topics, chance.choice(odd)))
        return chance.randbytes(chance.choice((0, 1, 5, 60, 2_000)))

    def _row(self, widths: tuple[int, ...]) -> bytes:
        chance, row = self._chance, b""
        for width in widths:
            most = (1 << 8 * width) - 1
            value = self._number("", 0, most)
            if width >= 4 and chance.random() < 0.1:
                value = chance.choice((self._epoch, most, 500))
            row += value.to_bytes(width, "little")
        return row

    # ---- appends ----

    def _append(self) -> bytes:
        """Groups that nearly fit their batches, and batches that nearly are such."""
        chance = self._chance
        batches = [self._batch() for _ in range(chance.choice((0, 1, 1, 2, 3)))]
        if chance.random() < 0.4:
            header = pb.AppendRequest()
            self._fill(header)
            header.ClearField("payload")
        else:
            header = pb.AppendRequest(message_id=self._number("", 0, (1 << 64) - 1))
            header.topic_ids.extend(self._topics)
            header.instances.extend("" for _ in self._topics)
            left = len(batches)
            while left:
                count = chance.randint(1, left)
                left -= count
                header.group_topic.append(chance.randrange(len(self._topics)))
                header.group_partition.append(self._number("", 0, (1 << 32) - 1))
                header.group_leader_epoch.append(self._number("epoch", 0, (1 << 31) - 1))
                header.group_acks.append(chance.choice((-1, 0, 1, 1, 2, -7, 1 << 30)))
                header.group_batches.append(count)
            header.batch_bytes.extend(map(len, batches))
            header.deadline_ms = chance.choice((0, 1, 50, 30_000, (1 << 32) - 1))
            if chance.random() < 0.2:
                header.transactional_ids.append(chance.choice(_WORDS))
                header.group_transaction.extend(
                    chance.choice((0, 1, 2, 3, 99)) for _ in header.group_topic
                )
        header.header_bytes = PLACEHOLDER
        made = frame(header.SerializeToString(), batches, sum(map(len, batches)))
        return joined(made)

    def _batch(self) -> bytes:
        chance = self._chance
        batch = bytearray(make_batch(value=b"hostile" * chance.choice((1, 9))))
        roll = chance.random()
        if roll < 0.4:
            return bytes(batch)
        if roll < 0.6:
            batch[PRODUCER_ID_AT : PRODUCER_ID_AT + 8] = bytes(7) + b"\x05"
            return bytes(batch)
        if roll < 0.9:
            return self._damaged(bytes(batch))
        return chance.randbytes(chance.choice((0, 1, 11, 60, 61, 62, 500)))

    # ---- bytes ----

    def _damaged(self, data: bytes) -> bytes:
        chance = self._chance
        ways: tuple[Callable[[bytearray], bytes], ...] = (
            lambda made: bytes(made[: chance.randint(0, len(made))]),
            lambda made: bytes(made) + chance.randbytes(chance.randint(1, 9)),
            self._flipped,
            self._flipped,
            lambda made: bytes(made) + bytes(made),
            self._spliced,
        )
        return chance.choice(ways)(bytearray(data))

    def _flipped(self, made: bytearray) -> bytes:
        chance = self._chance
        for _ in range(chance.choice((1, 1, 2, 8))):
            if made:
                made[chance.randrange(len(made))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        return bytes(made)

    def _spliced(self, made: bytearray) -> bytes:
        at = self._chance.randint(0, len(made))
        to = self._chance.randint(at, len(made))
        return bytes(made[:at] + made[to:])
