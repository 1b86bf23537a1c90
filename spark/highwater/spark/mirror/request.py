"""What a mirror is to do, as its command says."""

from dataclasses import dataclass

from highwater.model.errors import UsageError
from highwater.spark.mirror.naming import copy_name, is_offsets_topic
from highwater.spark.stream_source import EARLIEST


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorRequest:
    """Which topics of every source are copied, and how.

    `starting` is `earliest`, `latest` or a time in ms since 1970: where partitions begin that the first round of
    a run finds without a copy. `once`: up to what is there in the first round. `append`: behind records
    of a topic that no mirror wrote. A round takes at most `offsets_max` of each partition.
    """

    topics: tuple[str, ...]
    pattern: str | None
    offsets_max: int
    prefixed: bool = False
    append: bool = False
    once: bool = False
    read_committed: bool = True
    starting: str | int = EARLIEST

    def __post_init__(self) -> None:
        """Raise UsageError if a mirror's own topic is named."""
        for name in self.topics:
            if is_offsets_topic(name):
                raise UsageError(f"{name} is a mirror's own topic, which is not copied")

    def copy_name(self, alias: str, topic: str) -> str:
        """Returns the name that a topic's copy has. Raises UsageError."""
        return copy_name(alias, topic, prefixed=self.prefixed)
