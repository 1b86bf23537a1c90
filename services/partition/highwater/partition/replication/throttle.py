"""Limits catch-up traffic (KIP-73): so many bytes per second for the named replicas.

Operators set it while partitions move (`kafka-reassign-partitions --throttle`): rates on brokers,
lists of replicas on topics. Leaders and followers have a limit each. Only replicas outside the ISR
are held back. Unlike in Kafka, only their bytes count: otherwise in-sync replicas could use the
whole rate, and no other replica would ever catch up.

Pure: time comes in as an argument, in milliseconds of a monotonic clock.
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Final

from highwater.model.cluster import ClusterImage, TopicState
from highwater.model.ids import NodeId, TopicId
from highwater.model.token_bucket import BURST_S, TokenBucket
from highwater.model.topic_config import InvalidTopicConfigError, parse

WAIT_MS_MAX: Final = 500
"""The longest wait before the next look, because limits change and are removed meanwhile."""
UNLIMITED: Final = 2**63 - 1
"""The rate that means no limit, as in Kafka; also room for any answer."""
ALL: Final = "*"

Key = tuple[TopicId, int]

HELD: Final = -1
"""Instead of a number of bytes: the row has to wait."""


class Side(enum.Enum):
    """The throttled end of the stream; the values begin the names of the configs."""

    LEADER = "leader"
    FOLLOWER = "follower"

    @property
    def rate_config(self) -> str:
        """The name of the broker config with bytes per second."""
        return f"{self.value}.replication.throttled.rate"

    @property
    def replicas_config(self) -> str:
        """The name of the topic config: `*`, or partition:node pairs."""
        return f"{self.value}.replication.throttled.replicas"


class Throttle:
    """One side of one node. `partitions` is replaced, never changed, and usually empty."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.partitions: frozenset[Key] = frozenset()
        """The partitions that are throttled on this node."""
        self.passed_bytes = 0
        """Bytes of throttled replicas that were not in sync."""
        self.holds = 0
        """How often such a replica had to wait; the caller that lets it wait adds one."""
        self._bucket = TokenBucket()
        self._rate: int | None = None
        self._image_topics: Mapping[TopicId, TopicState] = {}

    @property
    def rate(self) -> int | None:
        """Bytes per second; None without a limit."""
        return self._rate

    def follow(self, image: ClusterImage, node_id: NodeId, now_ms: float) -> None:
        """Applies what an image says about this node."""
        rate = _rate_of(self.side, image, node_id)
        if rate != self._rate:
            self._rate = rate
            self._bucket.set_rate(now_ms, rate)
        if image.topics is not self._image_topics:
            self._image_topics = image.topics
            self.partitions = frozenset(_throttled(self.side, image, node_id))

    def room(self, now_ms: float) -> int:
        """How many bytes may pass now; 0 if it is too early.

        Many small answers would be wasteful, so there is room only when half of a burst is free.
        A larger batch passes as a whole, and the next one waits for it.
        """
        if self._rate is None:
            return UNLIMITED
        if self._bucket.hold_ms(now_ms, self._least()):
            return 0
        return max(1, self._bucket.available_bytes(now_ms) or 0)

    def wait_ms(self, now_ms: float) -> int:
        """How long until there may be room, at least 1 and at most `WAIT_MS_MAX`."""
        return min(max(self._bucket.hold_ms(now_ms, self._least()), 1), WAIT_MS_MAX)

    def passed(self, now_ms: float, nbytes: int) -> None:
        """Counts bytes of a throttled replica that is not in sync."""
        self.passed_bytes += nbytes
        self._bucket.charge(now_ms, nbytes)

    def _least(self) -> int:
        return 0 if self._rate is None else int(self._rate * BURST_S / 2)


def _rate_of(side: Side, image: ClusterImage, node_id: NodeId) -> int | None:
    name = side.rate_config
    text = image.node_configs.get(node_id, {}).get(name, image.cluster_configs.get(name))
    if text is None or not text.strip().isdecimal():
        return None  # Not set, or not valid any more.
    rate = int(text)
    return None if rate >= UNLIMITED else rate


def _throttled(side: Side, image: ClusterImage, node_id: NodeId) -> Iterator[Key]:
    name = side.replicas_config
    for topic in image.topics.values():
        text = topic.configs.get(name)
        if not text:
            continue
        try:
            replicas = parse(name, text)
        except InvalidTopicConfigError:
            continue  # As if it were not set.
        assert isinstance(replicas, tuple)
        for state in topic.partitions:
            if node_id in state.replicas and (
                ALL in replicas or f"{state.partition}:{node_id}" in replicas
            ):
                yield topic.topic_id, state.partition
