"""Finds a node's partitions without a look at all partitions.

Derived from one image and as immutable: `after` gives the index of the next image, at the cost of
the changes. Without it, the death of one node of a hundred would read 100 000 partitions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from highwater.model.cluster import ClusterDelta, ClusterImage, PartitionState
from highwater.model.ids import NO_NODE, LeaderEpoch, NodeId, TopicId
from highwater.model.steps import Steps, finish

PartitionKey = tuple[TopicId, int]
"""A topic and the number of one of its partitions."""

Keys = frozenset[PartitionKey] | set[PartitionKey]
"""Never changed once an index is made."""

_STEP_KEYS: Final = 256
"""Keys that one step of a sort looks at: about a tenth of a millisecond."""

_NONE: Final[frozenset[PartitionKey]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionIndex:
    """The partitions of one image, by their relation to nodes. Empty sets are left out."""

    replicas: Mapping[NodeId, Keys] = field(default_factory=dict)
    """By each node that has a replica of them."""
    in_sync: Mapping[NodeId, Keys] = field(default_factory=dict)
    """By each member of their ISR."""
    led: Mapping[NodeId, Keys] = field(default_factory=dict)
    """By their leader; NO_NODE for partitions without one."""
    moving: Keys = _NONE
    """Partitions to which a reassignment adds replicas, or from which it removes some."""
    led_by_others: Keys = _NONE
    """Partitions whose leader is not the preferred replica, the first."""

    @property
    def leaderless(self) -> int:
        """The number of partitions without a leader."""
        return len(self.led.get(NO_NODE, _NONE))

    def after(self, before: ClusterImage, delta: ClusterDelta) -> Steps["PartitionIndex"]:
        """The index of `before.apply(delta)`, in steps; `self` belongs to `before`."""
        if not (delta.topics or delta.partitions or delta.removed_topics):
            return self
        work = _Work(self)
        for topic_id in delta.removed_topics:
            topic = before.topics.get(topic_id)
            for state in () if topic is None else topic.partitions:
                work.change((topic_id, state.partition), state, None)
                yield
        for topic in delta.topics:
            known = before.topics.get(topic.topic_id)
            old = () if known is None else known.partitions
            for state in topic.partitions:
                former = old[state.partition] if state.partition < len(old) else None
                if former is not state:
                    work.change((topic.topic_id, state.partition), former, state)
                    yield
            for state in old[len(topic.partitions) :]:
                work.change((topic.topic_id, state.partition), state, None)
        for topic_id, states in delta.partitions.items():
            old = before.topics[topic_id].partitions
            for state in states:
                work.change((topic_id, state.partition), old[state.partition], state)
                yield
        return work.result()


def index_of(image: ClusterImage) -> PartitionIndex:
    """The index of an image, made by reading all its partitions."""
    return finish(indexing(image))


def indexing(image: ClusterImage) -> Steps[PartitionIndex]:
    """`index_of` in steps."""
    nothing = ClusterImage(revision=0, cluster_id="")
    delta = ClusterDelta(revision=image.revision, topics=tuple(image.topics.values()))
    return PartitionIndex().after(nothing, delta)


def in_order(keys: Iterable[PartitionKey]) -> Steps[list[PartitionKey]]:
    """Sorts keys in steps, topic by topic; `keys` stay as they are meanwhile."""
    by_topic: dict[TopicId, list[int]] = {}
    for count, (topic_id, number) in enumerate(keys, start=1):
        by_topic.setdefault(topic_id, []).append(number)
        if count % _STEP_KEYS == 0:
            yield
    result: list[PartitionKey] = []
    for topic_id in sorted(by_topic):
        result += [(topic_id, number) for number in sorted(by_topic[topic_id])]
        yield
    return result


class _Work:
    """The sets of the next index: a set that changes is copied once, the others are shared."""

    def __init__(self, index: PartitionIndex) -> None:
        self._replicas = _Sets(index.replicas)
        self._in_sync = _Sets(index.in_sync)
        self._led = _Sets(index.led)
        self._kinds = _Sets({_MOVING: index.moving, _LED_BY_OTHER: index.led_by_others})

    def change(
        self, key: PartitionKey, before: PartitionState | None, after: PartitionState | None
    ) -> None:
        """Takes a partition that is new (`before` None), changed, or gone (`after` None)."""
        old, new = before or _NOWHERE, after or _NOWHERE
        if old.replicas != new.replicas:
            self._replicas.move(key, old.replicas, new.replicas)
        if old.isr != new.isr:
            self._in_sync.move(key, old.isr, new.isr)
        if old.leader != new.leader or before is None or after is None:
            self._led.move(key, _leader(before), _leader(after))
        if (was := _kinds(old)) != (now := _kinds(new)):
            self._kinds.move(key, was, now)

    def result(self) -> PartitionIndex:
        """The finished index; `change` must not be called after this."""
        kinds = self._kinds.filled()
        return PartitionIndex(
            replicas=self._replicas.filled(),
            in_sync=self._in_sync.filled(),
            led=self._led.filled(),
            moving=kinds.get(_MOVING, _NONE),
            led_by_others=kinds.get(_LED_BY_OTHER, _NONE),
        )


_K = TypeVar("_K")


class _Sets(Generic[_K]):
    """Sets of partitions by some key, as a copy that shares the unchanged sets."""

    def __init__(self, known: Mapping[_K, Keys]) -> None:
        self._known = known
        self._changed: dict[_K, set[PartitionKey]] = {}

    def move(self, key: PartitionKey, old: tuple[_K, ...], new: tuple[_K, ...]) -> None:
        """The partition leaves the sets of `old`, and joins those of `new`."""
        for place in old:
            if place not in new:
                self._own(place).discard(key)
        for place in new:
            if place not in old:
                self._own(place).add(key)

    def filled(self) -> dict[_K, Keys]:
        """All sets that have members."""
        return {k: keys for k, keys in {**self._known, **self._changed}.items() if keys}

    def _own(self, place: _K) -> set[PartitionKey]:
        found = self._changed.get(place)
        if found is None:
            found = self._changed[place] = set(self._known.get(place, _NONE))
        return found


_MOVING: Final = "moving"
_LED_BY_OTHER: Final = "led by another replica than the preferred one"

_NOWHERE: Final = PartitionState(
    partition=-1,
    leader=NO_NODE,
    leader_epoch=LeaderEpoch(0),
    partition_epoch=0,
    replicas=(),
    isr=(),
)
"""Stands for a partition that does not exist."""


def _leader(state: PartitionState | None) -> tuple[NodeId, ...]:
    return () if state is None else (state.leader,)


def _kinds(state: PartitionState) -> tuple[str, ...]:
    other = bool(state.replicas) and state.leader != state.replicas[0]
    moving = bool(state.adding_replicas or state.removing_replicas)
    return (_MOVING,) * moving + (_LED_BY_OTHER,) * other
