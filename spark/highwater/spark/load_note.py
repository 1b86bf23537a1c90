"""How far a load came: the note that it commits with the rows, and finds again when it starts.

Positions of all topics are in every note, those of topics that this run did not load, too, so that the
last note alone says everything.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from highwater.model.errors import UsageError
from highwater.spark.topic_range import OffsetRange
from highwater.spark.value_format import FormatName, ValueFormat


class NoteUnreadable(UsageError):
    """The table's last note is not one of `load`."""

    reason = "NOTE_UNREADABLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Of one partition: the table holds the records from `begin` to before `next`."""

    begin: int
    next: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPositions:
    """Of one topic, which its id tells from one of the same name that was deleted."""

    topic_id: str
    partitions: Mapping[int, Position]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadNote:
    """The whole note. `ranges` are those of this commit; `replace` the rows that it replaced.

    `gone` are offsets that no load can read any more, as this commit found. `load_id` tells the loads into
    this table from all others; notes of before there were ids have none.
    """

    topics: Mapping[str, TopicPositions]
    ranges: tuple[OffsetRange, ...] = ()
    replace: str | None = None
    gone: tuple[OffsetRange, ...] = ()
    load_id: str = ""
    value_format: ValueFormat = field(default=ValueFormat(name=FormatName.RAW))


def to_json(note: LoadNote) -> str:
    """Returns the note as one line."""
    return json.dumps(
        {
            "topics": {
                name: {
                    "id": topic.topic_id,
                    "partitions": {
                        str(number): [position.begin, position.next]
                        for number, position in sorted(topic.partitions.items())
                    },
                }
                for name, topic in sorted(note.topics.items())
            },
            "ranges": [asdict(each) for each in note.ranges],
            "replace": note.replace,
            "gone": [asdict(each) for each in note.gone],
            "load_id": note.load_id,
            "format": {"name": note.value_format.name.value, "schema": note.value_format.schema},
        }
    )


def from_json(text: str) -> LoadNote:
    """Returns the note that `to_json` wrote. Raises NoteUnreadable."""
    try:
        document: dict[str, Any] = json.loads(text)
        return LoadNote(
            topics={
                name: TopicPositions(
                    topic_id=topic["id"],
                    partitions={
                        int(number): Position(begin=begin, next=after)
                        for number, (begin, after) in topic["partitions"].items()
                    },
                )
                for name, topic in document["topics"].items()
            },
            ranges=tuple(OffsetRange(**each) for each in document["ranges"]),
            replace=document["replace"],
            gone=tuple(OffsetRange(**each) for each in document.get("gone", ())),
            load_id=str(document.get("load_id", "")),
            value_format=ValueFormat(
                name=FormatName(document["format"]["name"]), schema=document["format"]["schema"]
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoteUnreadable(f"the table's last commit has no note of a load: {error!r}") from error
