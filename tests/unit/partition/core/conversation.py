"""A replica of node 1 with peers 2 and 3, and short ways to talk to it."""

from typing import Any

from highwater.partition.core import replica_events as on
from highwater.partition.core.invariants import check
from highwater.partition.core.leader_epochs import LeaderEpochCache
from highwater.partition.core.replica import Replica
from highwater.partition.core.replica_effects import Effect, ProposeIsr, StartLeading

LAG_MS = 100


class Conversation:
    """Carries out what touches the log, as a shell does, and checks the replica after each step."""

    def __init__(
        self, *epochs: tuple[int, int], end: int = 0, start: int = 0, high_watermark: int = 0
    ) -> None:
        self.epochs = LeaderEpochCache(epochs)
        self.replica = Replica(
            node=1,
            node_epoch=101,
            lag_ms_max=LAG_MS,
            epochs=self.epochs,
            log_start_offset=start,
            log_end_offset=end,
            high_watermark=high_watermark,
        )

    def hears(self, event: on.Event) -> list[Effect]:
        effects = self.replica.handle(event)
        for wanted in effects:
            if isinstance(wanted, StartLeading):
                self.epochs.assign(wanted.leader_epoch, wanted.start_offset)
        check(self.replica)
        return effects

    def record(self, leader: int, leader_epoch: int, partition_epoch: int, **fields: Any) -> Any:
        values: dict[str, Any] = {
            "now_ms": 0,
            "replicas": (1, 2, 3),
            "isr": (1, 2, 3),
            "min_isr": 1,
            **fields,
        }
        return self.hears(
            on.PartitionChanged(
                leader=leader,
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
                **values,
            )
        )

    def appends(self, end: int) -> int | None:
        moved = self.replica.appended(end, end)
        check(self.replica)
        return moved

    def fetches(self, node: int, offset: int, *, now_ms: int = 0, epoch: int = -1) -> int | None:
        """A follower's fetch that is not refused and does not diverge."""
        replica = self.replica
        leader_epoch = replica.leader_epoch
        assert replica.refuse_follower(node, max(epoch, 100 + node), leader_epoch) == 0
        moved = replica.follower_fetched(replica.followers[node], offset, now_ms)
        check(replica)
        return moved

    def proposes(self) -> ProposeIsr:
        (proposal,) = self.hears(on.IsrDue())
        assert isinstance(proposal, ProposeIsr)
        return proposal
