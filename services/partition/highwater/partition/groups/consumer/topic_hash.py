"""Hashes of subscribed topics, equal to Kafka's (KIP-1101; `Utils` of its group coordinator).

The log of groups has them, so they are the same for whoever coordinates a group: Kafka or Highwater.
What is hashed has the layout of hash4j's streams: little endian, a string in UTF-16 with its length
behind it.
"""

from collections.abc import Iterable, Sequence
from struct import Struct, pack
from typing import Final

from xxhash import xxh3_64_intdigest

from highwater.model.ids import TopicId

_VERSION: Final = b"\0"
_pack_int32 = Struct("<i").pack
_pack_ids = Struct("<QQ").pack
_unpack_uuid = Struct(">QQ").unpack
_INT32_BYTES: Final = 4
_SIGN: Final = 1 << 63


def topic_hash(
    topic_id: TopicId, name: str, partitions: int, racks: Sequence[Sequence[str]]
) -> int:
    """Of a topic and the racks of each partition's replicas, whatever their order; a signed 64-bit number.

    Without `racks` no replica has one.
    """
    parts = [_VERSION, _pack_ids(*_unpack_uuid(topic_id)), _string(name), _pack_int32(partitions)]
    if any(racks):
        packed: dict[Sequence[str], bytes] = {}
        for index, of_replicas in enumerate(racks):
            found = packed.get(of_replicas)
            if found is None:
                found = packed[of_replicas] = _racks(of_replicas)
            parts += _pack_int32(index), found
    else:
        parts.append(pack(f"<{partitions}i", *range(partitions)))
    return _signed(xxh3_64_intdigest(b"".join(parts)))


def group_hash(topics: Iterable[tuple[str, int]]) -> int:
    """Of topics' names and hashes, in any order; 0 without topics."""
    hashes = [of_topic for _, of_topic in sorted(topics)]
    if not hashes:
        return 0
    return _signed(xxh3_64_intdigest(pack(f"<{len(hashes)}q", *hashes)))


def _racks(racks: Iterable[str]) -> bytes:
    """Sorted as Java sorts strings: by the units of UTF-16."""
    texts = [_string(rack) for rack in sorted(racks, key=lambda rack: rack.encode("utf-16-be"))]
    return b"".join([text[-_INT32_BYTES:] + text for text in texts])


def _string(text: str) -> bytes:
    units = text.encode("utf-16-le")
    return units + _pack_int32(len(units) // 2)


def _signed(value: int) -> int:
    return value - 2 * _SIGN if value >= _SIGN else value
