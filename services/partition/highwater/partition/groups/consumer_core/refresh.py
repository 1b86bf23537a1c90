"""Groups follow the cluster's topics: those that they name, and those that match.

Both work in slices, so that thousands of groups or topics never block the loop. Kafka:
`TopicRegexResolver`, `handleRegularExpressionsResult` and `onMetadataUpdate`. Deviations: Kafka
looks again only with a heartbeat, at the earliest 10 s after the last time, and shows a regular
expression only topics that the member may describe; the coordinator here cannot ask that.
"""

from collections.abc import Iterator
from typing import Final

from highwater.model.steps import Steps
from highwater.partition.coordinator.core.timers import Timer
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.durable import RegexRecord
from highwater.partition.groups.consumer.group import NO_EPOCH, ConsumerGroup
from highwater.partition.groups.consumer.member import ResolvedRegex
from highwater.partition.groups.consumer.regex import InvalidRegexError, Pattern, compile_pattern
from highwater.partition.groups.consumer_core.state import ConsumerState
from highwater.partition.groups.core.values import GroupKey

_NAMES_PER_STEP: Final = 500
"""Topics that are matched in one step, about a millisecond with a few expressions."""

_PAUSE_MS: Final = 1
"""Between two slices, so that calls are handled meanwhile."""

Matches = dict[str, frozenset[str]]
"""Regular expression -> the topics that match."""


def topics_changed(state: ConsumerState, now: Moment) -> None:
    """Begin to compare all groups with the present topics, again if it is being done."""
    if not state.groups:
        return
    keys = iter(list(state.groups))
    state.refresh_timer.action = lambda later: _compare_some(state, keys, later)
    state.shard.timers.set(state.refresh_timer, now.now_ms)


def _compare_some(state: ConsumerState, keys: Iterator[GroupKey], now: Moment) -> None:
    for _ in range(state.config.expiry_groups_per_slice):
        key = next(keys, None)
        if key is None:
            return
        group = state.groups.get(key)
        if group is not None and group.members and group.epoch != NO_EPOCH:
            _compare(state, key, group, now)
    state.shard.timers.set(state.refresh_timer, now.now_ms + _PAUSE_MS)


def _compare(state: ConsumerState, key: GroupKey, group: ConsumerGroup, now: Moment) -> None:
    if group.subscribed_regexes():
        look_up(state, key, now)
    if state.hash_of(key, group) != group.metadata_hash:
        state.bump_epoch(key, group)


def look_up(state: ConsumerState, key: GroupKey, now: Moment) -> None:
    """Begin to look for the topics of the group's regular expressions, once more if it is done."""
    lookup = state.lookups.get(key)
    if lookup is not None:
        lookup.again = True
        return
    lookup = state.lookups[key] = Lookup(state, key)
    state.shard.timers.set(lookup.timer, now.now_ms)


class Lookup:
    """One group's look-up, from its beginning until it needs no other one."""

    __slots__ = ("_key", "_revision", "_state", "_steps", "again", "timer")

    def __init__(self, state: ConsumerState, key: GroupKey) -> None:
        self._state = state
        self._key = key
        self._revision = state.topics.revision
        self._steps = self._matching()
        self.again = False
        """Whether topics or expressions have changed since it began."""
        self.timer = Timer(self._step)

    def _matching(self) -> Steps[Matches]:
        """Expressions and topics are those of the beginning."""
        state, key = self._state, self._key
        group = state.groups.get(key)
        patterns = _compiled([] if group is None else list(group.subscribed_regexes()))
        found: dict[str, set[str]] = {text: set() for text in patterns}
        for index, name in enumerate(list(state.topics.names(key.instance)), start=1):
            for text, pattern in patterns.items():
                if pattern is not None and pattern.matches(name):
                    found[text].add(name)
            if index % _NAMES_PER_STEP == 0:
                yield
        return {text: frozenset(names) for text, names in found.items()}

    def _step(self, now: Moment) -> None:
        state = self._state
        try:
            next(self._steps)
        except StopIteration as stop:
            matches: Matches = stop.value
        else:
            state.shard.timers.set(self.timer, now.now_ms + _PAUSE_MS)
            return
        del state.lookups[self._key]
        group = state.groups.get(self._key)
        if group is None:
            return
        _take_matches(state, self._key, group, matches, self._revision, now)
        if self.again or not group.subscribed_regexes().keys() <= group.regexes.keys():
            look_up(state, self._key, now)


def _compiled(texts: list[str]) -> dict[str, Pattern | None]:
    """An expression that another coordinator took and that is none here matches nothing."""
    patterns: dict[str, Pattern | None] = {}
    for text in texts:
        try:
            patterns[text] = compile_pattern(text)
        except InvalidRegexError:
            patterns[text] = None
    return patterns


def _take_matches(
    state: ConsumerState,
    key: GroupKey,
    group: ConsumerGroup,
    matches: Matches,
    revision: int,
    now: Moment,
) -> None:
    wanted = group.subscribed_regexes()
    changed = False
    for text, topics in matches.items():
        old = group.regexes.get(text)
        if text not in wanted or (old is not None and old.topics == topics):
            continue
        resolved = ResolvedRegex(topics=topics, version=revision, timestamp_ms=now.wall_ms)
        state.apply(RegexRecord(key, text, resolved))
        changed |= bool(topics) or old is not None
    if changed or state.hash_of(key, group) != group.metadata_hash:
        state.bump_epoch(key, group)
