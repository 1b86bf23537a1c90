"""Groups follow the cluster's topics: those that they name, and those that match.

Both work in slices, so that thousands of groups or topics never block the loop. Kafka:
`TopicRegexResolver`, `handleRegularExpressionsResult` and `onMetadataUpdate`. Deviations: Kafka
looks again only with a heartbeat, at the earliest 10 s after the last time; here also when ACLs have
changed, in Kafka after `group.consumer.regex.refresh.interval.ms`. If the names of all topics that match do not fit into a record, the expression matches none; in Kafka it
matches those that it matched before.
"""

from collections.abc import Iterator
from typing import Final

from highwater.model.steps import Steps
from highwater.partition.coordinator.core.regex import InvalidRegexError, Pattern, compile_pattern
from highwater.partition.coordinator.core.values import Moment
from highwater.partition.groups.consumer.durable import RegexRecord
from highwater.partition.groups.consumer.group import NO_EPOCH, ConsumerGroup
from highwater.partition.groups.consumer.member import ResolvedRegex
from highwater.partition.groups.consumer.sizes import names_size, regex_memory
from highwater.partition.groups.consumer.topics import MayDescribe
from highwater.partition.groups.consumer_core.askers import Asker
from highwater.partition.groups.consumer_core.state import ConsumerState
from highwater.partition.groups.core.values import GroupKey

_COST_PER_STEP: Final = 1_000
"""What one step matches, as `Pattern.cost` counts: about a millisecond with usual expressions, and
never more than some ten."""

_VIEW_COST: Final = 10
"""Of the question whether a member may describe a topic: some 5 microseconds with few ACLs."""

_PAUSE_MS: Final = 1
"""Between two slices, so that calls are handled meanwhile."""

Matches = dict[str, frozenset[str]]
"""Regular expression -> the topics that match."""


def topics_changed(state: ConsumerState, now: Moment) -> None:
    """Begin to compare all groups with the present topics, again if it is being done."""
    for gone in state.askers.groups():
        state.askers.forget(gone, state.groups.get(gone))
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
    if group.regex_readers:
        look_up(state, key, now)
    if state.hash_of(key, group) != group.metadata_hash:
        state.bump_epoch(key, group)


def look_up(state: ConsumerState, key: GroupKey, now: Moment) -> None:
    """Begin to look for the topics of the group's regular expressions, once more if it is being done."""
    lookup = state.lookups.get(key)
    if lookup is not None:
        lookup.again = lookup.has_begun
        return
    state.lookups[key] = Lookup(state, key)
    if len(state.lookups) == 1:
        state.lookup_timer.action = lambda later: _look_up_some(state, later)
        state.shard.timers.set(state.lookup_timer, now.now_ms)


def _look_up_some(state: ConsumerState, now: Moment) -> None:
    """A step of the look-up that waits for longest: those of all other groups wait for its end."""
    key, lookup = next(iter(state.lookups.items()))
    matches = lookup.step()
    if matches is not None:
        del state.lookups[key]
        group = state.groups.get(key)
        if group is not None:
            _take_matches(state, key, group, matches, lookup.revision, now)
            if lookup.again or _misses_some(state, key, group):
                look_up(state, key, now)
    if state.lookups:
        state.shard.timers.set(state.lookup_timer, now.now_ms + _PAUSE_MS)


def _misses_some(state: ConsumerState, key: GroupKey, group: ConsumerGroup) -> bool:
    """Whether an expression that could be looked up has not been."""
    return any(
        text not in group.regexes and state.askers.of(key, group, text) is not None
        for text in group.regex_readers
    )


class Lookup:
    """One group's look-up, from when it is wanted until it is done."""

    __slots__ = ("_key", "_state", "_steps", "again", "has_begun", "revision")

    def __init__(self, state: ConsumerState, key: GroupKey) -> None:
        self._state = state
        self._key = key
        self._steps = self._matching()
        self.has_begun = False
        self.again = False
        """Whether topics or expressions have changed since it began."""
        self.revision = -1
        """Of the topics, when it began."""

    def step(self) -> Matches | None:
        """Do some of it; the result if that was the last step."""
        self.has_begun = True
        try:
            next(self._steps)
        except StopIteration as stop:
            matches: Matches = stop.value
            return matches
        return None

    def _matching(self) -> Steps[Matches]:
        """Expressions and topics are those of the beginning. An expression that nobody has asked for here
        is left as it is.
        """
        state, key = self._state, self._key
        self.revision = state.topics.revision
        names = state.topics.names(key.instance)
        group = state.groups.get(key)
        found: dict[str, set[str]] = {}
        patterns: list[tuple[Pattern, MayDescribe | None, set[str]]] = []
        wanted: list[tuple[str, Asker]] = []
        if group is not None:
            askers = ((text, state.askers.of(key, group, text)) for text in group.regex_readers)
            wanted = [(text, asker) for text, asker in askers if asker is not None]
        for text, asker in wanted:
            matching = found[text] = set()
            pattern = _compiled(text)
            if pattern is not None:
                may_describe = state.topics.described_by(key.instance, asker.view)
                patterns.append((pattern, may_describe, matching))
            yield
        cost = 0
        for name in names:
            for pattern, may_describe, matching in patterns:
                cost += pattern.cost
                if pattern.matches(name):
                    if may_describe is None:
                        matching.add(name)
                    else:
                        cost += _VIEW_COST
                        if may_describe(name):
                            matching.add(name)
                if cost >= _COST_PER_STEP:
                    cost = 0
                    yield
        return {text: frozenset(matching) for text, matching in found.items()}


def _compiled(text: str) -> Pattern | None:
    """None for an expression that another coordinator took and that is none here: it matches nothing."""
    try:
        return compile_pattern(text)
    except InvalidRegexError:
        return None


def _take_matches(
    state: ConsumerState,
    key: GroupKey,
    group: ConsumerGroup,
    matches: Matches,
    revision: int,
    now: Moment,
) -> None:
    changed = False
    for text, found in matches.items():
        if text not in group.regex_readers:
            continue
        old = group.regexes.get(text)
        topics = found if _has_room(state, key, old, found) else frozenset[str]()
        if old is not None and old.topics == topics:
            continue
        resolved = ResolvedRegex(topics=topics, version=revision, timestamp_ms=now.wall_ms)
        state.apply(RegexRecord(key, text, resolved))
        changed |= bool(topics) or old is not None
    if changed or state.hash_of(key, group) != group.metadata_hash:
        state.bump_epoch(key, group)


def _has_room(
    state: ConsumerState, key: GroupKey, old: ResolvedRegex | None, topics: frozenset[str]
) -> bool:
    """Whether so many topics fit into a record, and into memory."""
    grows = regex_memory(topics) - (0 if old is None else regex_memory(old.topics))
    fits = names_size(topics) <= state.config.list_bytes_max
    return fits and state.shard.may_grow(key.instance, grows)
