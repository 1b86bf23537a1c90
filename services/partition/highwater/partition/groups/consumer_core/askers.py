"""Who asks for the topics of a group's regular expressions, and which topics those members may describe.

An expression matches only what one member that subscribes to it may DESCRIBE (KAFKA-18813): the one
whose heartbeat made its topics be looked up, as in Kafka (`TopicRegexResolver`), until that member has
gone or subscribes to another one.

In memory only. After a failover an expression keeps the topics that it has matched until a heartbeat
of one of its members comes, which is a matter of seconds.
"""

from typing import NamedTuple

from highwater.model.authorization import TopicView
from highwater.partition.groups.consumer.group import ConsumerGroup
from highwater.partition.groups.core.values import GroupKey


class Asker(NamedTuple):
    """A member that an expression is looked up for."""

    member_id: str
    view: TopicView | None
    """None if it may describe every topic."""


class Askers:
    """Of all groups of one shard: at most one for each expression that has been subscribed to."""

    __slots__ = ("_by_group",)

    def __init__(self) -> None:
        self._by_group: dict[GroupKey, dict[str, Asker]] = {}

    def of(self, key: GroupKey, group: ConsumerGroup, regex: str) -> Asker | None:
        """The expression's, if it is known and still subscribes to it."""
        asker = self._by_group.get(key, {}).get(regex)
        if asker is None:
            return None
        member = group.members.get(asker.member_id)
        return None if member is None or member.metadata.topic_regex != regex else asker

    def note(
        self,
        key: GroupKey,
        group: ConsumerGroup,
        regex: str,
        member_id: str,
        view: TopicView | None,
    ) -> bool:
        """A member that subscribes to the expression has sent a heartbeat. True if it is the asker now and
        was not, or may describe other topics than before: then they have to be looked up.
        """
        known = self.of(key, group, regex)
        if known is not None and (known.member_id != member_id or known.view == view):
            return False
        self._by_group.setdefault(key, {})[regex] = Asker(member_id, view)
        return True

    def forget(self, key: GroupKey, group: ConsumerGroup | None) -> None:
        """Forget those of expressions that no member has any more; None is a group that is gone."""
        known = self._by_group.get(key)
        if known is None:
            return
        readers = () if group is None else group.regex_readers
        for regex in [regex for regex in known if regex not in readers]:
            del known[regex]
        if not known:
            del self._by_group[key]

    def groups(self) -> list[GroupKey]:
        """Those that have some."""
        return list(self._by_group)
