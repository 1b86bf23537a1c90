"""Removes the groups, or transactional ids, of instances that the cluster has no more.

Records do not say of which of two instances with the same id they are, and nodes hear of the cluster's
changes at different times. So two rules, and no waiting, tell a purged instance from one that this node
has not heard of yet (decision 194):

* A shard takes calls of an instance only while it is in the image whose roles the node has taken
  (`applied`). So whatever a shard's records name was in an image that was older than the next leader's
  election.
* What is missing in an image that is not older than the node's own election (`follow` comes before the
  roles of the same image) is therefore purged, and not new.
"""

from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from typing import Any, Final, Generic

from highwater.kafka.error_codes import ErrorCode
from highwater.model.ids import InstanceId
from highwater.partition.coordinator.core.forgetting import Forgetting
from highwater.partition.coordinator.core.values import Moment, ResponseT
from highwater.partition.coordinator.hosts import ShardHosts
from highwater.partition.coordinator.kind import ShardT
from highwater.partition.coordinator.records import RecordT

SLICE_PAUSE_S: Final = 0.01
"""Between two slices of a shard, so that calls are handled meanwhile."""
RETRY_S: Final = 0.25
"""After a slice without progress: the log refuses appends, or a transaction waits for its markers."""


class InstancePurge(Generic[ShardT, RecordT, ResponseT]):
    """Of the shards of one coordinator, as long as it lives; used on its loop."""

    def __init__(
        self,
        hosts: ShardHosts[ShardT, RecordT, ResponseT],
        *,
        forgetting_of: Callable[[ShardT], Forgetting[Any]],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """Until the first image all instances are admitted: there is no shard yet."""
        self._hosts = hosts
        self._forgetting_of = forgetting_of
        self._call_later = call_later
        self._newest: frozenset[InstanceId] | None = None
        """Of the newest image."""
        self._applied: frozenset[InstanceId] | None = None
        """Of the newest image whose roles the node has taken, without those that were purged since."""
        self._admitted: set[InstanceId] = set()
        """Of which calls are taken; those that have not called yet are not in it."""
        self._scheduled = False

    # -- images -------------------------------------------------------------------------------

    def follow(self, instances: Collection[InstanceId], removed: AbstractSet[InstanceId]) -> None:
        """The instances of a newer image; the node has not taken its roles in it.

        `removed` were purged on the way to it. They may be there again.
        """
        newest = frozenset(instances)
        gone = removed if self._newest is None else (self._newest - newest) | removed
        self._newest = newest
        if not gone:
            return
        self._admitted -= gone
        if self._applied is not None:
            self._applied -= gone
        for shard in self._hosts.shards():
            self._forgetting_of(shard).begin(gone)
        self._schedule(0)

    def applied(self) -> None:
        """The node has taken its roles in the newest image."""
        self._applied = self._newest

    def activated(self, shard: ShardT) -> None:
        """A shard was loaded: instances may have been purged while this node did not lead it."""
        newest = self._newest
        if newest is None:
            return
        forgetting = self._forgetting_of(shard)
        # The cluster's own need not be in images.
        gone = {i for i in forgetting.instances() if i not in newest and not i.startswith("_")}
        if gone:
            forgetting.begin(gone)
            self._schedule(0)

    # -- calls --------------------------------------------------------------------------------

    def admits(self, instance: InstanceId) -> bool:
        """Whether calls of the instance are taken: it exists, and nothing is left of a former one."""
        if instance in self._admitted:
            return True
        applied = self._applied
        if applied is None or instance.startswith("_"):
            return True
        if instance not in applied:
            return False
        if any(instance in self._forgetting_of(shard) for shard in self._hosts.shards()):
            return False
        self._admitted.add(instance)
        return True

    # -- slices -------------------------------------------------------------------------------

    def _schedule(self, pause_s: float) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._call_later(pause_s, self._turn)

    def _turn(self) -> None:
        """One slice of each shard that has something left."""
        self._scheduled = False
        pauses = []
        for host in list(self._hosts.by_partition.values()):
            shard = host.shard
            if isinstance(shard, ErrorCode):
                continue
            forgetting = self._forgetting_of(shard)
            left = len(forgetting)
            if not left:
                continue
            self._hosts.decide(host.partition, shard, "an instance's purge", self._step)
            if len(forgetting):
                pauses.append(SLICE_PAUSE_S if len(forgetting) < left else RETRY_S)
            else:
                self._hosts.logger.info(
                    self._hosts.event("purged_instances_forgotten"), partition=host.partition
                )
        if pauses:
            self._schedule(min(pauses))

    def _step(self, shard: ShardT, now: Moment) -> None:
        self._forgetting_of(shard).step(now)
