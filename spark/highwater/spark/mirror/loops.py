"""Copies that must not be: records that would come back to where they were, or two sources in one topic.

A cluster knows which of its topics are copies, and through which clusters their records came: their mirrors
have said so in offsets topics there. No mirror needs to know of another one. Decisions without I/O.
"""

from collections.abc import Iterable, Mapping

from highwater.spark.mirror.offset_records import Copy


def wanted_copy(
    name: str, alias: str, topic: str, source_id: str, at_source: Mapping[str, Copy]
) -> Copy:
    """Returns the copy of a topic; `at_source` are the copies that the source itself has."""
    came = at_source[topic].path if topic in at_source else ()
    return Copy(topic=name, source=alias, source_topic=topic, path=(*came, source_id))


def comes_back(copy: Copy, target_id: str) -> bool:
    """Whether the target's own records would come back to it."""
    return target_id in copy.path


def conflict(copy: Copy, at_target: Iterable[Copy]) -> str | None:
    """Returns why the copy cannot be beside those that the target has, of all mirrors; None if it can."""
    for other in at_target:
        if other.topic != copy.topic:
            continue
        theirs, ours = (other.source, other.source_topic), (copy.source, copy.source_topic)
        if theirs != ours:
            return (
                f"{copy.topic} is the copy of {other.source_topic} of {other.source} already, it cannot "
                f"be that of {copy.source_topic} of {copy.source}, too: --prefix keeps them apart"
            )
        if other.path[-1] != copy.path[-1]:
            return (
                f"{copy.topic} is the copy of a topic of cluster {other.path[-1]}, and {copy.source} is "
                f"now cluster {copy.path[-1]}: give it another alias"
            )
    return None
